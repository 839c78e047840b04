// Text to ids and back, from the vocabulary of a tokenizer.json; the kinds are those of data/tokenizer.py.
const [GLUE, SPACE] = ["￭", "▁"];
const MARK = "[\\p{P}\\p{S}]";
const BEFORE_MARK = new RegExp(`(?<=\\S)(?=(?!${GLUE})${MARK})(?!(?<=[\\p{L}\\p{M}])['’]\\p{L})(?!(?<=\\p{N})[.,:]\\p{N})`, "gu");
const AFTER_MARK = new RegExp(
  `(?<=(?!${GLUE})${MARK})(?=[^\\s\\p{P}\\p{S}])(?!(?<=[\\p{L}\\p{M}]['’])\\p{L})(?!(?<=\\p{N}[.,:])\\p{N})`, "gu");
const WITH_MARKS = new RegExp(`${SPACE}?(?:(?!${SPACE})${MARK})+`, "gu");
const LIKE_GPT2 = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;
const WORD = /[\p{L}\p{N}\p{M}_]+(?:['’-][\p{L}\p{N}\p{M}_]+)*|[^\p{L}\p{N}\p{M}_\s]/gu;

// Of BERT: what is taken out, letters that are words of their own, and marks that are.
const INNER = "##"; // on a piece of WordPiece: it goes on with the word
const LOST = /[\0\uFFFD]|(?![\t\n\r])\p{C}/gu;
const IDEOGRAPH = /[\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF\u{20000}-\u{2A6DF}\u{2A700}-\u{2B81F}\u{2B920}-\u{2CEAF}\u{2F800}-\u{2FA1F}]/gu;
const WORD_OR_MARK = /[!-/:-@[-`{-~\p{P}]|[^\s!-/:-@[-`{-~\p{P}]+/gu;
const LONGEST_WORD = 100; // what is longer is unknown

/** Byte → the printable letter by which vocabularies over bytes write it. */
const LETTERS = (() => {
  const printable = (byte) => (byte >= 0x21 && byte < 0x7f) || (byte >= 0xa1 && byte < 0xad) || (byte >= 0xae && byte < 0x100);
  let others = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : others++));
})();
const BYTES = new Map(LETTERS.map((letter, byte) => [letter, byte]));

/** A token that is no text. */
export const special = (text) => ({ text, span: null, word: null, special: true, unknown: false });

export class Tokenizer {
  /** `vocabulary`: pieces by id; `merges` of BPE, first ones first; `scores` of unigram pieces; `normalizer` of WordPiece; `specials`: ids that are no text. */
  constructor({ kind, lowercase, normalizer = null, vocabulary, merges = [], scores = [], specials, unk }) {
    Object.assign(this, { kind, lowercase, normalizer, vocabulary, scores, unk, specials: new Set(specials) });
    this.ids = new Map(vocabulary.map((piece, id) => [piece, id]).filter(([, id]) => !this.specials.has(id)));
    this.ranks = new Map(merges.map((pair, rank) => [pair, rank]));
    this.longest = vocabulary.reduce((most, piece) => Math.max(most, piece.length), 1);
    this.least = Math.min(0, ...scores) - 10; // the score of what is unknown, as the library has it
  }

  encode(text) {
    const fused = ["bpe", "unigram"].includes(this.kind); // unknown letters of a word that stand together are one
    return this.#cut(this.#normalized(text)).flatMap((word) =>
      this.#pieces(word).map((piece) => this.ids.get(piece) ?? this.unk)
        .filter((id, n, all) => !(fused && n > 0 && id === this.unk && all[n - 1] === id)));
  }

  /** What each id adds to the text, the space before it included. */
  surface(ids) {
    const unknown = this.vocabulary[this.unk] ?? ""; // also what an id is written as that stands for nothing
    const pieces = ids.map((id) => (this.specials.has(id) && id !== this.unk ? "" : this.vocabulary[id] || unknown));
    if (this.kind === "character") return pieces;
    if (this.kind === "byte" || this.kind === "bytes") {
      const reader = new TextDecoder();
      return pieces.map((piece, n) => reader.decode(Uint8Array.from([...piece], (letter) => BYTES.get(letter) ?? 63), { stream: n < pieces.length - 1 }));
    }
    if (this.kind === "bpe" || this.kind === "unigram") return pieces.map((piece) => piece.replaceAll(SPACE, " "));
    if (this.kind === "wordpiece") return pieces.map((piece) => (piece.startsWith(INNER) ? piece.slice(INNER.length) : piece && ` ${piece}`));
    if (this.kind !== "word") return pieces.map((piece) => (piece ? ` ${piece}` : ""));
    let space = "";
    return pieces.map((piece) => {
      if (!piece) return "";
      const text = piece.replace(new RegExp(`^${GLUE}|${GLUE}$`, "gu"), ""), shown = piece.startsWith(GLUE) ? text : space + text;
      space = piece.endsWith(GLUE) ? "" : " ";
      return shown;
    });
  }

  decode(ids) {
    const text = this.surface(ids).join("");
    return ["character", "byte", "bytes"].includes(this.kind) ? text : text.replace(/^ +| +$/g, "");
  }

  /** The tokens of an axis: what a picture writes beside each id, its place in the text, and the word that it is a part of. */
  tokens(ids) {
    const surface = this.surface(ids), text = this.decode(ids), shift = surface.join("").indexOf(text);
    const starts = [...text.matchAll(WORD)].map(({ index }) => index), letters = (end) => [...text.slice(0, Math.max(0, end))].length;
    let at = -shift;
    return ids.map((id, n) => {
      const first = at + surface[n].length - surface[n].trimStart().length;
      at += surface[n].length;
      if (this.specials.has(id) && id !== this.unk) return special(this.vocabulary[id]);
      const word = Math.max(0, starts.findLastIndex((start) => start <= first)), span = [letters(first), letters(at)];
      const shown = id === this.unk ? this.vocabulary[id] : surface[n].trim() || (surface[n] ? "␣" : "·"); // ·: half a character
      return { text: shown, span, word, special: false, unknown: id === this.unk };
    });
  }

  #normalized(text) {
    if (this.kind === "wordpiece") return this.#likeBert(text);
    text = text.normalize("NFC");
    if (this.lowercase) text = text.toLowerCase();
    if (["character", "byte", "bytes"].includes(this.kind)) return text;
    text = text.replace(/\s+/gu, " ").trim();
    if (this.kind === "space") return text.replace(/<(?=(pad|unk|s|\/s)>)/g, "‹");
    if (this.kind !== "word") return text;
    return text.replaceAll(GLUE, "■").replace(BEFORE_MARK, ` ${GLUE}`).replace(AFTER_MARK, `${GLUE} `);
  }

  #likeBert(text) {
    const { clean_text, handle_chinese_chars, strip_accents, lowercase } = this.normalizer;
    if (clean_text) text = text.replace(LOST, "").replace(/\s/gu, " ");
    if (handle_chinese_chars) text = text.replace(IDEOGRAPH, " $& ");
    if (strip_accents ?? lowercase) text = text.normalize("NFD").replace(/\p{Mn}/gu, "");
    return lowercase ? text.toLowerCase() : text;
  }

  /** Words, before they are cut into pieces. */
  #cut(text) {
    if (this.kind === "character") return [...text];
    if (this.kind === "wordpiece") return text.match(WORD_OR_MARK) ?? [];
    if (this.kind === "byte" || this.kind === "bytes") {
      const words = this.kind === "byte" ? [text] : text.match(LIKE_GPT2) ?? [];
      return words.map((word) => [...new TextEncoder().encode(word)].map((byte) => LETTERS[byte]).join(""));
    }
    if (this.kind === "word" || this.kind === "space") return text.split(/\s+/u).filter(Boolean);
    if (!text) return [];
    const spaced = text.replaceAll(" ", SPACE);
    const words = (spaced.startsWith(SPACE) ? spaced : SPACE + spaced).match(new RegExp(`${SPACE}[^${SPACE}]*`, "gu")) ?? [];
    return words.flatMap((word) => {
      const parts = [];
      let at = 0;
      for (const { 0: mark, index } of word.matchAll(WITH_MARKS)) {
        parts.push(word.slice(at, index), mark);
        at = index + mark.length;
      }
      return [...parts, word.slice(at)].filter(Boolean);
    });
  }

  #pieces(word) {
    if (["bpe", "bytes", "byte"].includes(this.kind)) return this.#merged([...word]);
    if (this.kind === "wordpiece") return this.#longestPieces([...word]);
    return this.kind === "unigram" ? this.#likeliest(word) : [word];
  }

  /** Wu et al. 2016, as in BERT: the longest piece of the vocabulary, then the longest of what is left; or all is unknown. */
  #longestPieces(letters) {
    const pieces = [];
    for (let from = 0; from < letters.length;) {
      let end = letters.length > LONGEST_WORD ? from : letters.length;
      const piece = () => (from ? INNER : "") + letters.slice(from, end).join("");
      while (end > from && !this.ids.has(piece())) end--;
      if (end === from) return [null];
      pieces.push(piece());
      from = end;
    }
    return pieces;
  }

  /** Sennrich et al. 2016: the pair that was merged first in training, again and again. */
  #merged(parts) {
    while (parts.length > 1) {
      const ranks = parts.slice(1).map((part, n) => this.ranks.get(`${parts[n]} ${part}`) ?? Infinity);
      const at = ranks.indexOf(Math.min(...ranks));
      if (ranks[at] === Infinity) break;
      parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
    return parts;
  }

  /** Kudo 2018: the cut whose pieces have the largest sum of log-probabilities. */
  #likeliest(word) {
    const letters = [...word], best = [{ score: 0, from: 0 }];
    for (let end = 1; end <= letters.length; end++) {
      best[end] = { score: -Infinity, from: end - 1 };
      for (let from = Math.max(0, end - this.longest); from < end; from++) {
        const id = this.ids.get(letters.slice(from, end).join(""));
        if (id === undefined && end - from > 1) continue;
        const score = best[from].score + (id === undefined ? this.least : this.scores[id]);
        if (score > best[end].score) best[end] = { score, from };
      }
    }
    const pieces = [];
    for (let end = letters.length; end > 0; end = best[end].from) pieces.unshift(letters.slice(best[end].from, end).join(""));
    return pieces;
  }
}
