// The page of runs, while they train and after: the sections of the report, asked for again as long as anything changes.
// Which runs are shown is in the URL, so that going back, reloading and a link show the same.
import { mount } from "./app.js";
import { call } from "./asking.js";
import { element } from "./paint.js";

const part = (id) => document.getElementById(id);
const [SOON, LATER] = [2000, 10_000]; // milliseconds between two questions: while a run trains, and else
const MOST_LOOKS = 4; // runs whose attention is shown
let runs = [];
let version = "";
let views = new Map(); // by the name of a run: what shows its attention, and of how many validations
const wanted = new Map(); // by the name of a run: the validation input that is shown, if not the first
let served = null; // names of the models that can be asked; of a training that is watched there are none
let timer = 0;

const chosen = () => new URLSearchParams(location.search).getAll("run");

async function ask(path) {
  try {
    return await call(path, null, part("choose").elements.key.value);
  } catch (error) {
    if (error.status === 401) part("key").hidden = false;
    throw error;
  }
}

async function refresh() {
  clearTimeout(timer);
  try {
    runs = (await ask("/api/runs")).runs;
    served ??= (await ask("/api/models")).models.map(({ name }) => name);
    const names = chosen().filter((name) => runs.some((run) => run.name === name));
    listRuns(names);
    if (names.length) await showReport(names);
    else part("report").replaceChildren();
    await showLooks(names.slice(0, MOST_LOOKS));
    part("status").textContent = runs.length ? "" : "No runs yet. A run appears here when its data is prepared.";
  } catch (error) {
    part("status").textContent = error.status === 0 ? "The service has ended; report.html in the run's folder shows the same." : error.message;
  }
  const soon = runs.some((run) => run.state === "training") || !runs.length;
  if (!document.hidden) timer = setTimeout(refresh, soon ? SOON : LATER);
}

/** A line for each run; those that are ticked are shown below, several side by side. */
function listRuns(names) {
  const focus = document.activeElement?.value;
  const lines = runs.map((run) => {
    const box = element("input", { type: "checkbox", name: "run", value: run.name, checked: names.includes(run.name) });
    const best = Object.entries(run.best).filter(([, value]) => value !== null).map(([name, value]) => `${name.replaceAll("_", " ")} ${Number(value.toPrecision(3))}`).join(" · ");
    const state = element("span", { className: `state ${run.state}`, textContent: run.state === "training" && run.done !== null ? `training, ${Math.round(100 * run.done)} %` : run.state === "ended" ? "finished" : run.state });
    const name = element("th", {}, element("label", {}, box, " ", element("bdi", { textContent: run.name })));
    name.scope = "row";
    return element("tr", {}, name, cell(run.job), element("td", {}, state), cell(run.step.toLocaleString("en"), "number"), cell(best));
  });
  const head = ["run", "job", "state", "steps", "best validation"].map((text) => Object.assign(element("th", { textContent: text }), { scope: "col" }));
  const made = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines));
  part("runs").classList.toggle("folded", names.length > 0); // what was chosen is not far below
  if (runs.length) part("runs").replaceChildren(made);
  if (focus) [...part("runs").querySelectorAll("input")].find((box) => box.value === focus)?.focus();
  const [only] = runs.filter((run) => names.length === 1 && run.name === names[0]);
  part("title").textContent = names.join(", ") || "Runs";
  part("about").textContent = only?.about ?? (names.length ? "" : "Select a run to see its training, or several runs to compare them.");
  part("ask").hidden = !served.length;
  part("ask").href = served.includes(only?.name) ? `/?${new URLSearchParams({ model: only.name })}` : "/";
  part("ask").textContent = served.includes(only?.name) ? "Open this model" : "Open a model";
  document.title = `regard: ${names.join(", ") || "runs"}`;
}

function cell(text, className = "") {
  return element("td", { textContent: text, className });
}

/** The sections as the service makes them; what was unfolded stays so. */
async function showReport(names) {
  const wish = new URLSearchParams([...names.map((name) => ["run", name]), ["since", version]]);
  const told = await ask(`/api/runs/report?${wish}`);
  version = told.version;
  if (told.html === null) return;
  const open = new Set([...part("report").querySelectorAll("details[open] > summary")].map((one) => one.textContent));
  const parsed = new DOMParser().parseFromString(told.html, "text/html");
  part("report").replaceChildren(...document.importNode(parsed.body, true).childNodes);
  for (const one of part("report").querySelectorAll("summary")) one.parentElement.open = open.has(one.textContent);
}

/** Attention from validation to validation. Who looks at the last one goes on to the next; who looks at another stays. */
async function showLooks(names) {
  for (const [name, { view, place }] of views) {
    if (names.includes(name)) continue;
    view.close();
    place.remove();
    views.delete(name);
  }
  for (const name of names) {
    const { looks: count = 0, inputs_watched: inputs = 0 } = runs.find((run) => run.name === name) ?? {};
    const before = views.get(name);
    const number = wanted.get(name) ?? 0;
    if (!count || (before?.count === count && before.number === number)) continue;
    const page = await ask(`/api/runs/looks?${new URLSearchParams({ run: name, number })}`);
    const root = element("div");
    const heading = element("h2", { textContent: names.length > 1 ? `${page.title}: ${name}` : page.title });
    const place = element("section", {}, heading, element("p", { className: "note", textContent: page.note }), ...(inputs > 1 ? [chooseInput(name, number, inputs)] : []), root);
    if (before) before.place.replaceWith(place);
    else part("looks").append(place);
    const state = before?.view.state;
    before?.view.close();
    const view = mount(root, page, { level: "h3" });
    for (const one of root.querySelectorAll("aside, [role=group]")) one.ariaLabel = `${one.ariaLabel}: ${name}`; // several may stand here
    if (state && before.number === number) view.change({ ...state, step: state.step === before.count - 1 ? count - 1 : state.step });
    views.set(name, { view, place, count, number });
  }
}

function chooseInput(name, number, inputs) {
  const select = element("select", { name: "input" }, ...Array.from({ length: inputs }, (_, i) => new Option(String(i + 1), String(i))));
  select.value = String(number);
  select.addEventListener("change", async () => {
    wanted.set(name, Number(select.value));
    await refresh();
    views.get(name)?.place.querySelector("[name=input]")?.focus();
  });
  return element("label", { className: "sort" }, `Validation input of ${name} `, select);
}

part("choose").addEventListener("change", (event) => {
  if (event.target.name === "run") {
    const names = [...part("choose").querySelectorAll("[name=run]:checked")].map((box) => box.value);
    history.pushState(null, "", names.length ? `?${new URLSearchParams(names.map((name) => ["run", name]))}` : location.pathname);
    version = "";
  }
  refresh();
});
part("choose").addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("popstate", () => {
  version = "";
  refresh();
});
document.addEventListener("visibilitychange", () => !document.hidden && refresh());
refresh();
