// Files that were sent: kept by their content for this session, so that a link, a reload and a step back still mean them.

const KEPT = 3_000_000; // bytes of a file that the session remembers
const sent = new Set(); // names that the service was given since this page was opened

/** Sends a file for a model; gives its name back, which is a hash of its content. */
export async function sendFile(file, model, ask) {
  const { name } = await ask(`/api/upload?${new URLSearchParams({ model })}`, file);
  sent.add(name);
  if (file.size <= KEPT) {
    try {
      sessionStorage.setItem(name, await asAddress(file));
    } catch {
      // The session has no more room: a reload will ask for the file again.
    }
  }
  return name;
}

/** Before an input is asked about with a file that this page did not send itself: the service may have forgotten it. */
export async function sendAgain(input, model, ask) {
  for (const name of input.split("\t")) {
    const kept = name.startsWith("upload:") && !sent.has(name) ? sessionStorage.getItem(name) : null;
    if (kept) await sendFile(fromAddress(kept), model, ask);
  }
}

function asAddress(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}

function fromAddress(address) {
  const binary = atob(address.slice(address.indexOf(",") + 1));
  return new Blob([Uint8Array.from(binary, (letter) => letter.charCodeAt(0))]);
}

/** Gives a file to whoever sits before the page. */
export function keepFile(content, name) {
  const address = URL.createObjectURL(content);
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser reads it after the click
}
