/** Filters as text, such as `project:vision status:pending user:me train`, and the order of a list. */
import { ranFor } from './pool'
import type { Row } from './types'

export const KEYS = ['project', 'user', 'type', 'status', 'activity', 'why', 'name'] as const
export type Key = (typeof KEYS)[number]

export interface Filter {
  by: Partial<Record<Key, Set<string>>>
  words: string[]
  /** Words that name no key, such as `colour:red`. */
  unknown: string[]
}

export function parseFilter(text: string, me: string): Filter {
  const filter: Filter = { by: {}, words: [], unknown: [] }
  for (const word of text.trim().split(/\s+/)) {
    if (!word) continue
    const at = word.indexOf(':')
    const key = word.slice(0, at) as Key
    if (at <= 0) filter.words.push(word.toLowerCase())
    else if (!KEYS.includes(key)) filter.unknown.push(word)
    else {
      const values = word.slice(at + 1).split(',').filter(Boolean)
      const known = (filter.by[key] ??= new Set())
      for (const value of values) known.add(key === 'user' && value === 'me' ? me : value)
    }
  }
  return filter
}

/** Name, project and user of rows in small letters, made when a row is first searched. */
const texts = new WeakMap<Row, string>()

function textOf(row: Row): string {
  let text = texts.get(row)
  if (text === undefined) {
    text = `${row.name}\n${row.project}\n${row.user}`.toLowerCase()
    texts.set(row, text)
  }
  return text
}

export function matches(row: Row, filter: Filter): boolean {
  for (const key in filter.by) {
    const values = filter.by[key as Key]!
    if (values.size && !values.has(row[key as Key])) return false
  }
  return filter.words.every((word) => textOf(row).includes(word))
}

/** The text with one value of a key set or, if it is the only one already, taken out. */
export function toggled(text: string, key: Key, value: string): string {
  const words = text.trim().split(/\s+/).filter(Boolean)
  const rest = words.filter((word) => !word.startsWith(`${key}:`))
  return words.includes(`${key}:${value}`) ? rest.join(' ') : [...rest, `${key}:${value}`].join(' ')
}

export type Order = 'newest' | 'name' | 'project' | 'user' | 'status' | 'gpus' | 'age' | 'ran'
export const ORDERS: Order[] = ['newest', 'name', 'project', 'user', 'status', 'gpus', 'age', 'ran']

/** Sort by a text: equal texts are compared once each, as there are few projects and users. */
function byText(rows: Row[], key: 'name' | 'project' | 'user' | 'status', sign: number): Row[] {
  const values = new Map<string, number>()
  for (const row of rows) values.set(row[key], 0)
  let rank = 0
  for (const value of [...values.keys()].sort()) values.set(value, rank++)
  const ranked = rows.map((row) => ({ row, rank: values.get(row[key])! }))
  return ranked.sort((a, b) => sign * (a.rank - b.rank) || b.row.uid - a.row.uid).map((each) => each.row)
}

type Compare = (a: Row, b: Row) => number

const TEXTS = new Set(['name', 'project', 'user', 'status'])
const isText = (order: string): order is 'name' | 'project' | 'user' | 'status' => TEXTS.has(order)

function compareBy(order: string, down: boolean, now_s: number): Compare {
  const sign = down ? -1 : 1
  const by = (value: (row: Row) => number): Compare => (a, b) => sign * (value(a) - value(b)) || b.uid - a.uid
  if (isText(order)) return (a, b) => (a[order] < b[order] ? -sign : a[order] > b[order] ? sign : b.uid - a.uid)
  if (order === 'gpus') return by((row) => row.gpus)
  if (order === 'age') return by((row) => -row.submitted)
  if (order === 'ran') return by((row) => ranFor(row, now_s))
  return (a, b) => b.submitted - a.submitted || b.uid - a.uid // numbers of a cluster's workloads are in no order
}

export function sorted(rows: Row[], order: string, down: boolean, now_s: number): Row[] {
  if (isText(order)) return byText([...rows], order, down ? -1 : 1)
  return [...rows].sort(compareBy(order, down, now_s))
}

/** The rows in the order of a list from before: only those that changed since are compared. */
export function resorted(before: readonly Row[], rows: ReadonlyMap<number, Row>, order: string, down: boolean, now_s: number): Row[] {
  const kept = before.filter((row) => rows.get(row.uid) === row)
  if (order === 'ran' || kept.length < rows.size / 2) return sorted([...rows.values()], order, down, now_s)
  if (kept.length === rows.size) return kept
  const known = new Set(kept)
  const compare = compareBy(order, down, now_s)
  const fresh = [...rows.values()].filter((row) => !known.has(row)).sort(compare)
  const found: Row[] = []
  let at = 0
  for (const row of fresh) {
    let [low, high] = [at, kept.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (compare(kept[middle]!, row) < 0) low = middle + 1
      else high = middle
    }
    for (; at < low; at++) found.push(kept[at]!)
    found.push(row)
  }
  for (; at < kept.length; at++) found.push(kept[at]!)
  return found
}

/** Count rows by status. */
export function counts(rows: Iterable<Row>): Record<string, number> {
  const found: Record<string, number> = {}
  for (const row of rows) found[row.status] = (found[row.status] ?? 0) + 1
  return found
}
