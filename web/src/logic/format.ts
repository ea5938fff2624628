/** Numbers, times and names as people read them. */

const UNITS: [string, number][] = [['d', 86400], ['h', 3600], ['m', 60], ['s', 1]]

/** A duration in its two largest units as in the sentences of the server, such as "2h5m". */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds))
  if (whole < 60) return `${whole}s`
  const at = UNITS.findIndex(([, size]) => whole >= size)
  const [unit, size] = UNITS[at]!
  const first = Math.floor(whole / size)
  const [next, less] = UNITS[at + 1]!
  const second = Math.floor((whole % size) / less)
  return second && first < 10 ? `${first}${unit}${second}${next}` : `${first}${unit}`
}

/** A duration in one unit, such as "2.1h". */
export function brief(seconds: number): string {
  const [unit, size] = UNITS.find(([, each]) => seconds >= each) ?? UNITS.at(-1)!
  return `${(seconds / size).toLocaleString('en', { maximumFractionDigits: seconds / size < 10 && size > 1 ? 1 : 0 })}${unit}`
}

/** How long ago a time was. */
export function ago(at_s: number, now_s: number): string {
  const passed = now_s - at_s
  return passed < 5 ? 'now' : `${span(passed)} ago`
}

/** A time of the browser's zone, with the zone. */
export function moment(at_s: number): string {
  return new Date(at_s * 1000).toLocaleString(undefined, {
    year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit',
    timeZoneName: 'short',
  })
}

const EPOCH_MIN_S = 1e9

/** A number of a reason: a time is shown as one, and its name without its unit. */
export function named(key: string, item: number): [string, string] {
  if (key.endsWith('_s') && item >= EPOCH_MIN_S) return [words(key.slice(0, -2)), moment(item)]
  return [words(key), number(item)]
}

/** A minute of the browser's zone, with the zone, and with the year for long periods. */
export function day(at_s: number, year = false): string {
  return new Date(at_s * 1000).toLocaleString(undefined, { ...(year ? { year: 'numeric' as const } : {}), month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', timeZoneName: 'short' })
}

/** A time on the axis of a chart of this length: hours within a day, days within a year. */
export function tick(at_s: number, length_s: number): string {
  const hours = length_s < 2 * 86400
  return new Date(at_s * 1000).toLocaleString(undefined, hours ? { hour: '2-digit', minute: '2-digit', second: length_s < 600 ? '2-digit' : undefined } : { month: 'short', day: 'numeric', year: length_s > 300 * 86400 ? 'numeric' : undefined })
}

/** A time as programs read it. */
export const iso = (at_s: number): string => new Date(at_s * 1000).toISOString()

/** A count with at most two decimals, and its thousands apart. */
export function number(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: 2 })
}

export const counted = (value: number, noun: string): string => `${number(value)} ${noun}${value === 1 ? '' : 's'}`

/** Start of a reason that begins with the name of a node, which keeps its case. */
const NODE_FIRST = /^[a-z]+ has (no GPU with as much free|.+ free, and a pod asks for) /

/** A reason as a sentence: with a capital letter, unless it begins with a name, and a full stop. */
export function sentence(text: string, name = ''): string {
  const first = text.split(' ', 1)[0]!
  if (text.endsWith('…')) text = text.replace(/[\s,;:]*\S*…$/, ' …') // a word that is cut says nothing
  const begun = first !== name && /^[a-z]+$/.test(first) && !NODE_FIRST.test(text) ? text[0]!.toUpperCase() + text.slice(1) : text
  return !begun || /[.?!…]$/.test(begun) ? begun : `${begun}.`
}

/** A project and a user, as far as they are known: a cluster knows no users of workloads. */
export const ownerOf = (row: { project: string; user: string }): string => (row.user ? `${row.project}, ${row.user}` : row.project)

export const gpus = (value: number): string => counted(value, 'GPU')

export const percent = (fraction: number): string => `${Math.round(fraction * 100)} %`

const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

export function bytes(value: number): string {
  let at = 0
  while (value >= 1024 && at < SIZES.length - 1) {
    value /= 1024
    at++
  }
  return `${value >= 100 || at === 0 ? Math.round(value) : value.toFixed(1).replace(/\.0$/, '')} ${SIZES[at]}`
}

/** An amount of a resource with its unit. */
export function amount(resource: string, value: number): string {
  if (resource === 'memory') return bytes(value)
  if (resource === 'cpu') return counted(value, 'core')
  return resource === 'gpu' ? gpus(value) : number(value)
}

const names = new Intl.Collator('en', { numeric: true })

/** The order of names, where node-10 comes after node-9. */
export const byName = (a: { name: string }, b: { name: string }): number => names.compare(a.name, b.name)

/** The domain that all names have in common, with its dot: it says nothing. */
export function domainOf(all: readonly { name: string }[]): string {
  const [first = '', ...others] = all.map(({ name }) => (/^[^.]*[a-z][^.]*\./i.test(name) ? name.slice(name.indexOf('.')) : ''))
  return others.every((each) => each === first) ? first : ''
}

/** A reason code in words. */
export const words = (code: string): string => code.replaceAll('_', ' ')

const RULES: Readonly<Record<string, string>> = {
  reclaim_quota: 'reclaim of quota', reclaim_share: 'reclaim of fair share', preempt: 'preemption', consolidate: 'consolidation',
  repack: 'repacking', gang_broken: 'broken gang', overcommitted: 'over-commitment', memory_exceeded: 'use of GPU memory', idle: 'idle work',
}

/** The rule of an eviction in words, as sentences have it. */
export const ruleWords = (rule: string): string => RULES[rule] ?? words(rule)

/** A sentence of an older server, which has the rule of an eviction as a code in parentheses, with that rule in words. */
export const ruleInWords = (text: string): string => text.replace(/ \(((?:reclaim|gang|memory)_[a-z]+)\)/, (_, rule: string) => ` (${ruleWords(rule)})`)

/** One of the project colours, the same for a name always. */
export function colourOf(name: string): number {
  let hash = 2166136261
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 16777619)
  return (hash >>> 0) % 8
}

/** Two or three letters of a name: colour is never the only sign. */
export function shortOf(name: string): string {
  const parts = name.split(/[-_. ]+/).filter(Boolean)
  return (parts.length > 1 ? parts.map((part) => part[0]).join('') : name).slice(0, 3).toUpperCase()
}
