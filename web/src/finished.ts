// The page of a folder of results: finds runs, and compares, downloads, deletes and starts them.

import { ask, element, inOrder, make } from "./page";

/** The list is read again so often, in milliseconds, while the page is seen. */
const READ_EVERY_MS = 4000;
const MOST_SHOWN = 300;
const AGES: [number, string][] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const DAMAGED = ["damaged", "foreign"];

/** What is said of a run, as `mptcplab.web.shelf` does. */
interface Run {
  id: string;
  experiment: string;
  title: string;
  changes: string[];
  backend: string;
  seed: number | null;
  status: string;
  why: string | null;
  started: string | null;
  held: number;
  expectations: number;
  live: string | null;
}

const addressOf = (path: string, names: Iterable<string>) => `${path}?${new URLSearchParams([...names].map((name) => ["run", name]))}`;
const secondsSince = (time: string) => Math.max(0, (Date.now() - Date.parse(time)) / 1000);

function ageOf({ started }: Run): string {
  if (started === null) return "–";
  const seconds = secondsSince(started);
  const [size, unit] = AGES.find(([least]) => seconds >= least) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit}`;
}

class ResultsPage {
  #runs: Run[] = [];
  readonly #chosen = new Set<string>();
  #shown: Run[] = [];
  #read = "";

  constructor() {
    const filters = element("filters");
    filters.addEventListener("input", () => this.#show());
    filters.addEventListener("submit", (event) => event.preventDefault());
    element("all").addEventListener("change", () => this.#chooseAll());
    element("compare").addEventListener("click", () => location.assign(addressOf("compare", this.#chosen)));
    element("download").addEventListener("click", () => location.assign(addressOf("download", this.#chosen)));
    element("delete").addEventListener("click", () => this.#askToDelete());
    element("question").addEventListener("close", () => this.#answered());
    element("start").addEventListener("submit", (event) => this.#start(event));
    document.addEventListener("visibilitychange", () => this.#readRuns());
    setInterval(() => this.#readRuns(), READ_EVERY_MS);
    this.#readRuns();
    void this.#readExperiments();
  }

  async #readRuns(): Promise<void> {
    if (document.hidden) return;
    try {
      const text = await (await fetch("runs")).text();
      // Ages change, too, but nothing that a reader points at should.
      if (text === this.#read) return;
      this.#read = text;
      const { runs, failed } = JSON.parse(text) as { runs: Run[]; failed: string[] };
      this.#runs = runs;
      this.#offerFilters();
      this.#show();
      if (failed.length) element("state").textContent += `; not carried out: ${failed.join("; ")}`;
    } catch {
      element("state").textContent = "mptcplab no longer answers";
    }
  }

  async #readExperiments(): Promise<void> {
    const found = (await (await fetch("experiments")).json()) as { id: string; title: string }[];
    for (const { id, title } of found) make(element("experiments"), "option", title, { value: id });
  }

  #offerFilters(): void {
    const values = { experiment: this.#runs.map((run) => run.experiment), backend: this.#runs.map((run) => run.backend), status: this.#runs.map((run) => run.status) };
    for (const [id, found] of Object.entries(values)) {
      const select = element<HTMLSelectElement>(id);
      const known = new Set([...select.options].map(({ value }) => value));
      for (const value of inOrder(new Set(found))) if (value && !known.has(value)) make(select, "option", value, { value });
    }
    const settings = element("settings");
    settings.replaceChildren();
    for (const change of inOrder(new Set(this.#runs.flatMap(({ changes }) => changes)))) make(settings, "option", "", { value: change });
  }

  #isWanted(run: Run): boolean {
    const value = (id: string) => element<HTMLInputElement>(id).value.trim();
    const words = value("search").toLowerCase().split(/\s+/).filter(Boolean);
    const told = [run.id, run.experiment, run.title, run.backend, run.status, run.why, `seed ${run.seed}`, ...run.changes].join(" ").toLowerCase();
    const age = Number(value("age"));
    return (
      words.every((word) => told.includes(word)) &&
      run.changes.join(" ").includes(value("setting")) &&
      ["", run.experiment].includes(value("experiment")) &&
      ["", run.backend].includes(value("backend")) &&
      ["", run.status].includes(value("status")) &&
      (age === 0 || (run.started !== null && secondsSince(run.started) <= age))
    );
  }

  #show(): void {
    const wanted = this.#runs.filter((run) => this.#isWanted(run));
    wanted.sort((one, other) => (other.started ?? "").localeCompare(one.started ?? ""));
    this.#shown = wanted.slice(0, MOST_SHOWN);
    const known = new Set(this.#runs.map(({ id }) => id));
    for (const id of this.#chosen) if (!known.has(id)) this.#chosen.delete(id);
    const focused = document.activeElement?.getAttribute("data-run") ?? null;
    const body = element("runs").querySelector("tbody")!;
    body.replaceChildren();
    for (const run of this.#shown) this.#addRow(body, run);
    if (focused !== null) body.querySelector<HTMLElement>(`[data-run="${CSS.escape(focused)}"]`)?.focus();
    const count = wanted.length === this.#runs.length ? `${wanted.length} runs` : `${wanted.length} of ${this.#runs.length} runs`;
    element("state").textContent = this.#runs.length ? count : "this folder has no runs";
    const more = element("more");
    more.hidden = wanted.length <= MOST_SHOWN;
    more.textContent = `And ${wanted.length - MOST_SHOWN} more: search for them, or filter.`;
    this.#showChosen();
  }

  #addRow(body: HTMLElement, run: Run): void {
    const row = make(body, "tr");
    const box = make(make(row, "td"), "input", "", { type: "checkbox", checked: this.#chosen.has(run.id) });
    box.dataset.run = run.id;
    box.setAttribute("aria-label", `Choose ${run.id}`);
    row.classList.toggle("is-chosen", box.checked);
    box.addEventListener("change", () => {
      this.#chosen[box.checked ? "add" : "delete"](run.id);
      row.classList.toggle("is-chosen", box.checked);
      this.#showChosen();
    });
    const name = make(row, "th", "", { scope: "row" });
    if (run.status === "running" && run.live !== null) make(name, "a", run.experiment, { href: run.live });
    else if (run.status === "running" || DAMAGED.includes(run.status)) name.append(run.experiment);
    else make(name, "a", run.experiment, { href: `report/${run.id.split("/").map(encodeURIComponent).join("/")}` });
    if (run.title) make(name, "span", run.title, { className: "title" });
    make(row, "td", run.changes.join(", ") || "–");
    make(row, "td", run.backend || "–");
    make(row, "td", String(run.seed ?? "–"), { className: "n" });
    const status = make(row, "td");
    make(status, "span", run.status === "foreign" ? "of another version" : run.status, { className: `status-${run.status}` });
    if (run.expectations) status.append(`, ${run.held} of ${run.expectations} held`);
    if (run.why && run.why !== "is being written") make(status, "span", run.why, { className: "why" });
    make(row, "td", ageOf(run), { title: run.started ?? "" });
    const hands = make(row, "td");
    if (run.status === "running") hands.append(run.live === null ? "is being written" : "");
    else if (!DAMAGED.includes(run.status)) {
      const button = make(hands, "button", "Again", { type: "button" });
      button.setAttribute("aria-label", `Run ${run.experiment} again, live`);
      button.addEventListener("click", () => this.#startRun({ again: run.id, backend: run.backend, seed: run.seed }));
    }
    if (run.status === "running" && run.live !== null) make(hands, "a", "Watch", { href: run.live });
  }

  #chooseAll(): void {
    const { checked } = element<HTMLInputElement>("all");
    for (const { id } of this.#shown) this.#chosen[checked ? "add" : "delete"](id);
    this.#show();
  }

  #showChosen(): void {
    const count = this.#chosen.size;
    element("chosen").textContent = count ? `${count} chosen` : "none chosen";
    element<HTMLInputElement>("all").checked = this.#shown.length > 0 && this.#shown.every(({ id }) => this.#chosen.has(id));
    for (const [id, least] of [["compare", 2], ["download", 1], ["delete", 1]] as const) {
      element<HTMLButtonElement>(id).disabled = count < least;
    }
  }

  #askToDelete(): void {
    const names = [...this.#chosen];
    const what = names.length === 1 ? `the run ${names[0]}` : `${names.length} runs`;
    element("question-text").textContent = `Delete ${what}, with all files? This cannot be undone.`;
    const question = element<HTMLDialogElement>("question");
    question.returnValue = "no";
    question.showModal();
  }

  async #answered(): Promise<void> {
    if (element<HTMLDialogElement>("question").returnValue !== "yes") return;
    if ((await ask("delete", { runs: [...this.#chosen] })) !== null) this.#chosen.clear();
    await this.#readRuns();
  }

  #start(event: Event): void {
    event.preventDefault();
    const value = (id: string) => element<HTMLInputElement>(id).value;
    void this.#startRun({ experiment: value("asked"), backend: value("on"), seed: Number(value("seed")), speed: value("speed") });
  }

  async #startRun(asked: Record<string, unknown>): Promise<void> {
    const started = (await ask("start", asked)) as { live: string } | null;
    if (started !== null) location.assign(started.live);
  }
}

new ResultsPage();
