// The page of a run that goes on, as the messages of the server tell it.

import { LiveCharts, type Value } from "./live_charts";
import { Rates } from "./messages";
import type { EndMessage, EventMessage, Message, NoteMessage, PaceMessage, RunMessage, Sample, StrategyMessage } from "./messages";
import { Network } from "./network";
import { ask, element, inOrder } from "./page";
import { Switches } from "./switches";
import { Traffic } from "./traffic";

/** The length of a step of a paused run. */
const STEP_S = 0.1;

/** All that is shown of a run. */
interface Shown {
  run: RunMessage;
  charts: LiveCharts;
  network: Network;
  traffic: Traffic;
  /** Null without switches under control. */
  switches: Switches | null;
}

class LivePage {
  readonly #rates = new Rates();
  #shown: Shown | null = null;
  #isPaused = false;
  #time_s = 0;
  #hasEnded = false;

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
      this.#shown?.charts.redraw();
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
        return this.#shown.traffic.told(message);
      case "event":
        return this.#happened(message, this.#shown);
      case "note":
        return this.#noted(message);
      case "strategy":
        return this.#recovers(message, this.#shown);
      case "end":
        return this.#ended(message);
    }
  }

  #tellState(text: string, className = ""): void {
    Object.assign(element("state"), { textContent: text, className: `state ${className}` });
  }

  #begin(run: RunMessage): void {
    element("where").textContent = `${run.name} · ${run.backend} · seed ${run.seed}`;
    element("pace").hidden = !run.has_pace;
    const charts = new LiveCharts(element("figures"), run.duration_s);
    const switches = run.recovery ? new Switches(run, run.recovery) : null;
    this.#shown = { run, charts, network: new Network(run), traffic: new Traffic(run, charts), switches };
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
    const time = `${this.#time_s.toFixed(1)} s of ${this.#shown?.run.duration_s} s`;
    if (!this.#hasEnded) this.#tellState(`${this.#isPaused ? "paused at" : "running:"} ${time}`);
  }

  #sampled(sample: Sample, shown: Shown): void {
    this.#time_s = sample.time_s;
    shown.network.sampled(sample, this.#rates);
    shown.traffic.sampled(sample, this.#rates);
    this.#drawLinks(sample, shown);
    this.#rates.passed(sample);
    this.#tellTime();
  }

  #drawLinks(sample: Sample, { run, charts }: Shown): void {
    const links = new Map(run.links.map((link) => [link.id, link]));
    const of = (id: string, value: number | null): Value => ({ key: id, label: id, colour: links.get(id)!.colour, value });
    const carried = inOrder(links.keys()).map((id) => {
      const [forward, backward] = this.#rates.ofLink(sample, id, "wire_bytes");
      return of(id, forward === null || backward === null ? null : 8e-6 * (forward + backward));
    });
    if (carried.some(({ value }) => value === null)) return;
    const throughput = { quantity: "Throughput", unit: "Mbit/s", isStacked: false, least: 0.1 };
    charts.addValues("Carried by each link, both ways", throughput, sample.time_s, carried);
    const air = inOrder(links.keys()).map((id) => of(id, this.#rates.airPercent(sample, links.get(id)!)));
    const wireless = air.filter(({ value }) => value !== null);
    if (!wireless.length) return;
    const share = { quantity: "Air time", unit: "%", isStacked: false, least: 100, most: 100 };
    charts.addValues("Time on the air", share, sample.time_s, wireless);
  }

  #happened({ at_s, text, is_by_hand, action }: EventMessage, { charts, network }: Shown): void {
    this.#log(at_s, `${text}${is_by_hand ? ", by hand" : ""}`, is_by_hand ? "event by-hand" : "event");
    charts.mark(text, at_s);
    network.happened(action);
  }

  #noted({ at_s, text }: NoteMessage): void {
    this.#log(at_s, text, "note-line");
  }

  #recovers({ name, at_s, is_by_hand }: StrategyMessage, { switches }: Shown): void {
    switches?.recoversWith(name);
    this.#log(at_s, `the network recovers with ${name} from now on${is_by_hand ? ", by hand" : ""}`, is_by_hand ? "event by-hand" : "event");
  }

  #log(at_s: number, text: string, className: string): void {
    const line = document.createElement("li");
    line.className = className;
    line.textContent = `${at_s.toFixed(2)} s: ${text}`;
    element("log").prepend(line);
  }

  #ended({ status, why, bundle }: EndMessage): void {
    this.#hasEnded = true;
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
