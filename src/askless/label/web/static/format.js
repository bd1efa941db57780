// Numbers, times and dates as people read them.

import { language } from "./words.js";

const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });
const hundredth = new Intl.NumberFormat(language, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const time = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const hour = new Intl.DateTimeFormat(language, time);
const day = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", ...time });

/** Not null and not missing. */
export const isKnown = (value) => value !== null && value !== undefined;

export const count = (value) => whole.format(value);
export const oneDigit = (value) => tenth.format(value);
export const twoDigits = (value) => hundredth.format(value);

/** A share as a percentage: 0.008 -> "0.8 %", whose parts no line break separates. */
export function percent(share) {
  const value = 100 * share;
  return `${value !== 0 && Math.abs(value) < 10 ? tenth.format(value) : whole.format(value)}\u00a0%`;
}

/** Seconds as a clock: 81 -> "1:21", 4000 -> "1:06:40". */
export function clock(seconds) {
  const all = Math.max(0, Math.round(seconds));
  const [h, m, s] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  const two = (value) => String(value).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** The server's UTC time in the reader's own time zone; without the day if it is today. */
export function when(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return "";
  return date.toDateString() === new Date().toDateString() ? hour.format(date) : day.format(date);
}

/** The last part of a path, for small places. */
export const shortName = (path) => String(path).split("/").pop();
