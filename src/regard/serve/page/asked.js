// What was asked in this session: a list of links, the latest first.
import { element, short } from "./paint.js";

const LIST = "asked";
const MOST = 30;

/** `go(search)` is told of a link that is followed. */
export function listAsked(place, go) {
  const list = place.querySelector("ol");
  const known = () => JSON.parse(sessionStorage.getItem(LIST) ?? "[]");
  function draw() {
    const asked = known();
    place.hidden = !asked.length;
    list.replaceChildren(...asked.map(({ search, text }) => {
      const link = element("a", { href: `/${search}`, textContent: text });
      link.addEventListener("click", (event) => {
        event.preventDefault();
        place.open = false;
        go(search);
      });
      return element("li", {}, link);
    }));
  }
  draw();
  return (search, model, input, output) => {
    const text = `${model}: ${short(input, 60)}${output ? ` → ${short(output, 60)}` : ""}`;
    sessionStorage.setItem(LIST, JSON.stringify([{ search, text }, ...known().filter((one) => one.search !== search)].slice(0, MOST)));
    draw();
  };
}
