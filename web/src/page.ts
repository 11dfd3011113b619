// What the pages of a server share: elements, and requests that change something.

/** The element of the page with an id. */
export function element<Type extends HTMLElement = HTMLElement>(id: string): Type {
  return document.getElementById(id) as Type;
}

/** Appends an element with a text and properties. */
export function make<Name extends keyof HTMLElementTagNameMap>(
  parent: Element,
  name: Name,
  text = "",
  properties: Partial<HTMLElementTagNameMap[Name]> = {},
): HTMLElementTagNameMap[Name] {
  const made = parent.appendChild(document.createElement(name));
  if (text !== "") made.textContent = text;
  return Object.assign(made, properties);
}

/** Appends a button that does something when it is pressed. */
export function makeButton(parent: Element, text: string, does: () => void, label = text): HTMLButtonElement {
  const button = make(parent, "button", text, { type: "button" });
  if (label !== text) button.setAttribute("aria-label", label);
  button.addEventListener("click", (event) => {
    // It may be in a row that can be chosen.
    event.stopPropagation();
    does();
  });
  return button;
}

/** Appends a cell for each name to a row of a table. */
export function makeCells<Name extends string>(
  row: HTMLTableRowElement,
  names: readonly Name[],
  numeric: readonly Name[],
): Record<Name, HTMLElement> {
  const cells: Partial<Record<Name, HTMLElement>> = {};
  for (const name of names) cells[name] = make(row, "td", "–", { className: numeric.includes(name) ? "n" : "" });
  return cells as Record<Name, HTMLElement>;
}

/** Names in the order that people expect: n2 before n10. */
export const inOrder = (names: Iterable<string>) => [...names].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));

/** Asks the server for a change. Shows why it refuses. Returns its answer, null if it was not done. */
export async function ask(address: string, body: unknown): Promise<unknown> {
  const headers = { "content-type": "application/json", [document.body.dataset.changes ?? ""]: "1" };
  const refusal = element("refusal");
  let why = "";
  let answered: unknown = null;
  try {
    const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
    const isJson = answer.headers.get("content-type")?.startsWith("application/json") ?? false;
    answered = isJson ? await answer.json() : {};
    if (!answer.ok) why = (answered as { why?: string }).why ?? answer.statusText;
  } catch {
    why = "the server does not answer: mptcplab has ended";
  }
  refusal.textContent = why;
  refusal.hidden = why === "";
  return why === "" ? answered : null;
}
