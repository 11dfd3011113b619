// The page of a run that goes on, as the messages of the server tell it.

import { LiveCharts } from "./live_charts";
import { Interval, START } from "./messages";
import type { EndMessage, EventMessage, Message, NoteMessage, PaceMessage, RunMessage, Sample, SubflowMessage } from "./messages";
import { Network } from "./network";
import { ask, element } from "./page";
import { Switches } from "./switches";
import { Traffic } from "./traffic";

/** The length of a step of a paused run. */
const STEP_S = 0.1;
/** The page is drawn at most so often, in milliseconds, and that takes at most this part of the time. */
const DRAWN_EVERY_MS = 100;
const MOST_OF_TIME = 1 / 3;
/** The picture of a network with more nodes is too wide to stand beside the charts. */
const MOST_NODES_BESIDE = 3;

/** All that is shown of a run. */
interface Shown {
  run: RunMessage;
  charts: LiveCharts;
  network: Network;
  traffic: Traffic;
  /** Null without controlled switches. */
  switches: Switches | null;
}

class LivePage {
  #shown: Shown | null = null;
  #latest = new Interval(START, START);
  #isPaused = false;
  #hasEnded = false;
  #waitsToDraw = false;
  #tookMs = 0;

  constructor() {
    this.#follow();
    element("pause").addEventListener("click", () => ask("pace", { is_paused: !this.#isPaused }));
    element("step").addEventListener("click", () => ask("pace", { step_s: STEP_S }));
    for (const button of document.querySelectorAll<HTMLElement>("button.speed")) {
      const { speed } = button.dataset;
      button.addEventListener("click", () => ask("pace", { speed: speed ? Number(speed) : null }));
    }
  }

  #follow(): void {
    const address = new URL("messages", location.href);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = new WebSocket(address);
    socket.addEventListener("message", ({ data }) => {
      for (const message of JSON.parse(data) as Message[]) this.#take(message);
      this.#drawSoon();
    });
    socket.addEventListener("close", () => this.#hasEnded || this.#tellState("mptcplab no longer answers", "is-dead"));
  }

  #take(message: Message): void {
    if (message.kind === "run") this.#begin(message);
    if (this.#shown === null) return;
    switch (message.kind) {
      case "pace":
        return this.#paced(message);
      case "sample":
        return this.#sampled(message, this.#shown);
      case "subflow":
        return this.#named(message, this.#shown);
      case "event":
        return this.#happened(message, this.#shown);
      case "note":
        return this.#noted(message);
      case "end":
        return this.#ended(message);
    }
  }

  #named(message: SubflowMessage, { charts, traffic }: Shown): void {
    traffic.told(message);
    charts.rename(message.entity, message.label, message.colour);
  }

  #tellState(text: string, className = ""): void {
    Object.assign(element("state"), { textContent: text, className: `state ${className}` });
  }

  #begin(run: RunMessage): void {
    element("where").textContent = `${run.name} · ${run.backend} · seed ${run.seed}`;
    element("pace").hidden = !run.has_pace;
    element("network-and-charts").classList.toggle("beside", run.nodes.length <= MOST_NODES_BESIDE);
    const charts = new LiveCharts(element("figures"), run.duration_s, () => this.#drawSoon());
    const switches = run.recovery ? new Switches(run, run.recovery) : null;
    this.#shown = { run, charts, network: new Network(run), traffic: new Traffic(run), switches };
    this.#tellState("running");
  }

  #paced({ speed, is_paused }: PaceMessage): void {
    this.#isPaused = is_paused;
    element("pause").textContent = is_paused ? "Go on" : "Pause";
    element<HTMLButtonElement>("step").disabled = !is_paused;
    for (const button of document.querySelectorAll<HTMLElement>("button.speed")) {
      button.setAttribute("aria-pressed", String(button.dataset.speed === (speed === null ? "" : String(speed))));
    }
    this.#tellTime();
  }

  #tellTime(): void {
    const time = `${this.#latest.to_s.toFixed(1)} s of ${this.#shown?.run.duration_s} s`;
    if (!this.#hasEnded) this.#tellState(`${this.#isPaused ? "paused at" : "running:"} ${time}`);
  }

  #sampled(sample: Sample, { charts, network, traffic }: Shown): void {
    this.#latest = new Interval(this.#latest.now, sample);
    traffic.addTo(charts, this.#latest);
    network.addTo(charts, this.#latest);
  }

  /** Draws soon, and many changes once. */
  #drawSoon(): void {
    if (this.#waitsToDraw) return;
    this.#waitsToDraw = true;
    setTimeout(() => {
      this.#waitsToDraw = false;
      const begun = performance.now();
      this.#draw();
      this.#tookMs = performance.now() - begun;
    }, Math.max(DRAWN_EVERY_MS, this.#tookMs / MOST_OF_TIME));
  }

  #draw(): void {
    if (this.#shown === null) return;
    const { charts, network, traffic } = this.#shown;
    this.#tellTime();
    if (this.#latest.to_s > 0) {
      network.show(this.#latest);
      traffic.show(this.#latest);
    }
    charts.draw();
  }

  #happened({ at_s, text, is_by_hand, action }: EventMessage, { charts, network, switches }: Shown): void {
    this.#log(at_s, `${text}${is_by_hand ? ", by hand" : ""}`, is_by_hand ? "event by-hand" : "event");
    charts.mark(text, at_s);
    network.happened(action);
    switches?.happened(action);
  }

  #noted({ at_s, text }: NoteMessage): void {
    this.#log(at_s, text, "note-line");
  }

  #log(at_s: number, text: string, className: string): void {
    const line = document.createElement("li");
    line.className = className;
    line.textContent = `${at_s.toFixed(2)} s: ${text}`;
    element("log").prepend(line);
  }

  #ended({ status, why, bundle }: EndMessage): void {
    this.#hasEnded = true;
    this.#draw();
    this.#tellState(status === "done" ? "done" : `${status}: ${why ?? "no reason was recorded"}`, status === "done" ? "" : "is-bad");
    element("pace").hidden = true;
    element("ended").hidden = false;
    element("how-ended").textContent = `Its bundle is ${bundle}.`;
    const hands = document.querySelectorAll<HTMLButtonElement | HTMLInputElement | HTMLSelectElement>(
      "#links button, #subflows button, .hands button, .hands input, .hands select",
    );
    for (const each of hands) each.disabled = true;
  }
}

new LivePage();
