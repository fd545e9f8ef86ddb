// As much of a browser as the live page needs, so that its script runs in Node: elements, and a server with given answers.
"use strict";
const {script, key, token, width, answers} = JSON.parse(require("fs").readFileSync(0, "utf8"));

class Element {
  constructor(tag) {
    Object.assign(this, {tag, attributes: {}, children: [], style: {}, classes: new Set(), clientWidth: width, clientHeight: 190, offsetWidth: 10, dataset: {}});
    const {classes} = this;
    this.classList = {
      add: name => classes.add(name),
      remove: name => classes.delete(name),
      toggle: (name, on) => (on ? classes.add(name) : classes.delete(name)),
    };
  }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; }
  remove() {}
  addEventListener() {}
  getBoundingClientRect() { return {left: 0}; }
  set textContent(text) { this.children = [String(text)]; }
  get textContent() { return this.children.map(child => child.textContent ?? child).join(""); }
  all(test) { return [...(test(this) ? [this] : []), ...this.children.flatMap(child => child.all?.(test) ?? [])]; }
}

const byId = {};
const storage = items => ({getItem: name => items[name] ?? null, setItem: (name, value) => { items[name] = value; }});
Object.assign(globalThis, {
  document: {
    documentElement: Object.assign(new Element("html"), {dataset: {key}}),
    getElementById: id => (byId[id] ??= new Element("div")),
    createElement: tag => new Element(tag),
    createElementNS: (_, tag) => new Element(tag),
  },
  sessionStorage: storage({token}), localStorage: storage({}), location: {search: ""},
  matchMedia: () => ({matches: false}),
  ResizeObserver: class { observe() {} },
  fetch: async () => {
    const {status = 200, error, data, json} = answers.shift() ?? await new Promise(() => {});
    const parts = data ? [`data: ${JSON.stringify(data)}\n\n`] : [];
    const read = async () => (parts.length ? {value: parts.shift(), done: false} : await new Promise(() => {}));
    return {status, ok: status === 200, json: async () => json ?? {error}, body: {pipeThrough: () => ({getReader: () => ({read})})}};
  },
});

(0, eval)(script);
setTimeout(() => {
  const elements = Object.entries(byId).map(([id, element]) => [id, {
    text: element.textContent,
    hidden: element.classes.has("hidden"),
    titles: element.all(each => each.attributes.title).map(each => each.attributes.title),
    below: element.all(each => each.tag === "text" && Number(each.attributes.y) === 186).map(each => each.textContent),
  }]);
  console.log(JSON.stringify(Object.fromEntries(elements)));
  process.exit();
}, 50);
