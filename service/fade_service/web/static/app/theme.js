// Light and dark: by the system, or as chosen here. Colours stand in style.css alone; charts read them from there.

import { useEffect, useState } from "./lib.js";

const CHOICES = ["auto", "light", "dark"];
const STORED = "fade-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const changes = new EventTarget();

let choice = stored();
apply();
system.addEventListener("change", () => changes.dispatchEvent(new Event("change")));

function stored() {
  try {
    const kept = localStorage.getItem(STORED);
    return CHOICES.includes(kept) ? kept : "auto";
  } catch {
    return "auto"; // storage may be forbidden
  }
}

function apply() {
  if (choice === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
}

/** Auto, light, dark, and from the start. */
export function nextTheme() {
  choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
  apply();
  try {
    localStorage.setItem(STORED, choice);
  } catch {
    // then it lasts as long as the page
  }
  changes.dispatchEvent(new Event("change"));
}

/** The choice, and the colours in force; again whenever they change. */
export function useTheme() {
  const [theme, set] = useState(read);
  useEffect(() => {
    const change = () => set(read());
    changes.addEventListener("change", change);
    return () => changes.removeEventListener("change", change);
  }, []);
  return theme;
}

const NAMES = ["text", "muted", "line", "surface", "blue", "orange", "green", "purple", "grey", "red", "amber", "zoom"];

let known = { key: "", colours: {} };

function read() {
  const key = `${choice} ${system.matches}`;
  if (known.key !== key) {
    const style = getComputedStyle(document.documentElement);
    known = { key, colours: Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()])) };
  }
  return { choice, colours: known.colours };
}
