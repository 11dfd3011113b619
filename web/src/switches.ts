// What can be done where switches are under control: paths over other nodes, and another strategy of recovery.

import type { Action, Recovery, Reroute, RunMessage } from "./messages";
import { ask, element, make, makeButton } from "./page";

export class Switches {
  readonly #select: HTMLSelectElement;
  readonly #does: HTMLElement;
  #now = "";

  constructor(
    { reroutes }: RunMessage,
    private readonly recovery: Recovery,
  ) {
    const place = element("switches");
    place.hidden = false;
    make(place, "h3", "Controlled switches");
    this.#select = this.#addChoice(make(place, "p"));
    this.#does = make(place, "p");
    this.#recoversWith(recovery.strategy);
    for (const key of new Set(reroutes.map(nameOf))) addReroutes(make(place, "p", `${key}:`), reroutes, key);
  }

  /** Takes note of an event, which may be that another strategy recovers the network from now on. */
  happened(action: Action | null): void {
    if (action?.kind === "set_recovery" && action.strategy !== undefined) this.#recoversWith(action.strategy);
  }

  #recoversWith(name: string): void {
    this.#now = name;
    this.#select.value = name;
    const { strategies, detect_s } = this.recovery;
    const does = strategies.find((one) => one.name === name)?.does ?? "";
    const isLeft = ["none", "transport"].includes(name);
    const notices = detect_s === null ? "It notices ports that go down, and no cut." : `It knows of a failure after ${1e3 * detect_s} ms.`;
    this.#does.textContent = [`When a link fails, ${name}: ${does}.`, ...(isLeft ? [] : [notices])].join(" ");
  }

  /** Adds the choice of a strategy, which acts when another one is chosen. */
  #addChoice(line: HTMLElement): HTMLSelectElement {
    const select = make(make(line, "label", "Recovery"), "select");
    for (const { name } of this.recovery.strategies) make(select, "option", name, { value: name });
    select.addEventListener("change", async () => {
      if ((await ask("actions", { recovery: select.value })) === null) select.value = this.#now;
    });
    return select;
  }
}

const nameOf = ({ flow, path }: Reroute) => `${flow}, path ${path}`;

function addReroutes(line: HTMLElement, reroutes: Reroute[], key: string): void {
  for (const { flow, path, over } of reroutes.filter((one) => nameOf(one) === key)) {
    const text = `over ${over.join(" – ")}`;
    makeButton(line, text, () => ask("actions", { reroute: flow, path, over }), `Send ${key}, ${text}`);
  }
}
