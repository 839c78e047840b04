// What is pointed at or pinned: a row (who looks) and a column (what is looked at). Every view listens to the same focus.

export function makeFocus() {
  const listeners = new Set();
  let pinned = { row: null, column: null };
  let hovered = null;
  const tell = () => listeners.forEach((listener) => listener(now()));
  const now = () => ({ row: null, column: null, ...(hovered ?? pinned), pinned: !hovered });
  return {
    get now() { return now(); },
    get pinned() { return pinned; },
    /** Of the pointer or the keyboard: for as long as it stays there; null lets go. */
    hover(place) {
      hovered = place;
      tell();
    },
    /** Stays; what is pinned already is let go. `toggle` false: it stays in any case. */
    pin(place, toggle = true) {
      const same = toggle && Object.entries(place).every(([side, at]) => pinned[side] === at);
      pinned = same ? { row: null, column: null } : { row: null, column: null, ...place };
      hovered = null;
      tell();
    },
    listen(listener) {
      listeners.add(listener);
      listener(now());
    },
    /** Before a new picture: nobody of the old one listens any more. */
    forget() {
      listeners.clear();
      hovered = null;
    },
  };
}

/** A focus of its own for a table with other rows, which shares what is looked at. */
export function sharingColumns(focus) {
  const own = makeFocus();
  const { hover } = own;
  let telling = false;
  own.hover = (place) => {
    telling = true;
    hover(place);
    focus.hover(place && { column: place.column });
    telling = false;
  };
  focus.listen(({ column }) => telling || hover(column === null ? null : { column }));
  return own;
}
