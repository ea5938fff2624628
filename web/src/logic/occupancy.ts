/** Who holds which GPU, and what of it is borrowed or idle. */
import { once } from './events'
import { byName, number } from './format'
import type { Pool } from './pool'
import type { Device, Person, PoolEvent, PoolNode, Queue, Row, Why } from './types'

export const IDLE_BELOW = 0.05
/** A GPU that is held and used less than this is worth a look; `weir top` marks it too. */

export type Hold = 'free' | 'quota' | 'borrowed' | 'foreign' | 'drained'

export interface Cell {
  node: PoolNode
  device: Device
  /** The workloads on it; several share it. */
  rows: Row[]
  hold: Hold
  idle: boolean
}

export const quotaOf = (queue: Queue): number => queue.quota['gpu'] ?? (queue.kind === 'project' ? 0 : Infinity)
export const heldBy = (queue: Queue): number => queue.allocated['gpu'] ?? 0

/** Workloads that hold what is beyond their project's quota: the lowest priority first, then the latest start. */
export function borrowers(pool: Pool): Set<number> {
  const over = new Map<string, number>()
  for (const queue of pool.queues.values())
    if (queue.kind === 'project' && heldBy(queue) > quotaOf(queue) + 1e-6) over.set(queue.name, heldBy(queue) - quotaOf(queue))
  if (!over.size) return new Set()
  const found = new Set<number>()
  const held = [...pool.rows.values()].filter((row) => row.status !== 'pending' && over.has(row.project))
  held.sort((a, b) => a.priority - b.priority || (b.started ?? 0) - (a.started ?? 0))
  for (const row of held) {
    const left = over.get(row.project)!
    if (left <= 1e-6) continue
    found.add(row.uid)
    over.set(row.project, left - row.gpus)
  }
  return found
}

const IDLE_STATES = new Set(['parked', 'left', 'quiet'])

/** Return True if nothing moves on a GPU: by the state of its workloads, else by its use. One without a measurement is never idle. */
export const isIdle = (device: Device): boolean =>
  device.use !== null && (device.activity ? device.activity.split(', ').every((state) => IDLE_STATES.has(state)) : device.use < IDLE_BELOW)

/** Return True if a GPU is allocated, and nothing measures its use: its workloads were read without it. */
export const isUnmeasured = (device: Device): boolean => device.allocated > 0 && device.use === null && device.activity !== null

/** Mean use of the measured ones of these GPUs, and their memory in use; null: unknown. */
export function measurementOf(devices: readonly Device[]): { use: number | null; memory: number | null; unmeasured: number } {
  const used = devices.filter((device) => device.use !== null)
  const isKnown = devices.length > 0 && devices.every((device) => device.memory_used !== null)
  return {
    use: used.length ? used.reduce((sum, device) => sum + device.use!, 0) / used.length : null,
    memory: isKnown ? devices.reduce((sum, device) => sum + device.memory_used!, 0) : null,
    unmeasured: devices.length - used.length,
  }
}

/** The row of a workload; an index such as `parts[3]` has none of its own, and is in that of its array. */
export const rowOn = (pool: Pool, name: string): Row | undefined => pool.names.get(name) ?? pool.names.get(name.replace(/\[\d+\]$/, ''))

export function cellsOf(pool: Pool, node: PoolNode, borrowing: ReadonlySet<number>): Cell[] {
  return node.devices.map((device) => {
    const rows = device.workloads.map((name) => rowOn(pool, name)).filter((row) => row !== undefined)
    let hold: Hold = 'free'
    if (device.foreign) hold = 'foreign'
    else if (device.drained && device.allocated <= 0) hold = 'drained'
    else if (device.allocated > 0) hold = rows.some((row) => borrowing.has(row.uid)) ? 'borrowed' : 'quota'
    const idle = device.allocated > 0 && isIdle(device)
    return { node, device, rows, hold, idle }
  })
}

export interface Totals {
  gpus: number
  allocated: number
  /** The allocated part of the GPUs on which nothing moves. */
  idle: number
  /** The allocated part of the GPUs whose use isn't known. */
  unmeasured: number
  /** The most whole GPUs that are free on one node, and on all. */
  block: number
  free: number
  foreign: number
}

export function totals(cells: Iterable<Cell>): Totals {
  const found: Totals = { gpus: 0, allocated: 0, idle: 0, unmeasured: 0, block: 0, free: 0, foreign: 0 }
  const free = new Map<string, number>()
  for (const { device, node, hold, idle } of cells) {
    found.gpus++
    found.allocated += device.allocated
    if (idle) found.idle += device.allocated
    if (isUnmeasured(device)) found.unmeasured += device.allocated
    if (hold === 'foreign') found.foreign++
    if (hold === 'free' && !node.state.length) free.set(node.name, (free.get(node.name) ?? 0) + 1)
  }
  for (const count of free.values()) {
    found.free += count
    found.block = Math.max(found.block, count)
  }
  return found
}

/** Return True if the use of a GPU is known: in a cluster, by its exporter alone. */
export const isMeasured = (pool: Pool): boolean => [...pool.nodes.values()].some((node) => node.devices.some((device) => device.use !== null))

/** Return True if the activity of a workload is known. */
export const knowsActivity = (pool: Pool): boolean => [...pool.rows.values()].some((row) => row.activity !== '' && row.activity !== 'unknown')

/** Pending workloads in the order of their priority and age, suspended ones last. */
export function queueHead(pool: Pool, most: number): Row[] {
  const pending = [...pool.rows.values()].filter((row) => row.status === 'pending')
  const key = (row: Row) => (row.why === 'suspended' ? 1 : 0)
  return pending
    .sort((a, b) => key(a) - key(b) || b.priority - a.priority || a.submitted - b.submitted)
    .slice(0, most)
}

/** In words, what counts as pending everywhere on the page: the rows of the list behind the number. */
const PENDING = 'Workloads of which nothing runs yet. An array counts once.'

const namespaceOf = (person: Person): string => person.cluster?.namespace ?? ''

/** The meaning of a number of pending workloads: with one namespace shown, those of others aren't known. */
export const pendingTitle = (person: Person): string => PENDING + (namespaceOf(person) ? ` Only those of namespace ${namespaceOf(person)} count.` : '')

/** The head of a column of such numbers beside amounts of the whole project. */
export const pendingHead = (person: Person): string => (namespaceOf(person) ? 'Pending here' : 'Pending')

/** The place of a workload in its project's queue, where each index of an array has a place of its own. */
export function placeOf(why: Pick<Why, 'position' | 'waiting'>, project: string, pending: ReadonlyMap<string, number>): string {
  const place = `number ${why.position} of ${number(why.waiting)} in the queue of ${project}`
  return why.waiting > (pending.get(project) ?? 0) ? `${place}, where each index of an array counts` : place
}

/** Number of pending indices of arrays of which others run: such an array is no pending workload. */
export function indicesBehind(pool: Pool): number {
  let found = 0
  for (const row of pool.rows.values()) if (row.status !== 'pending') found += row.pending_indices
  return found
}

/** Pending workloads by project, and by the departments above it. */
export function pendingBy(pool: Pool): Map<string, number> {
  const found = new Map<string, number>()
  for (const row of pool.rows.values()) if (row.status === 'pending') found.set(row.project, (found.get(row.project) ?? 0) + 1)
  for (const [project, count] of [...found]) {
    const seen = new Set([project])
    for (let above = pool.queues.get(project)?.parent; above && !seen.has(above); above = pool.queues.get(above)?.parent) {
      found.set(above, (found.get(above) ?? 0) + count)
      seen.add(above)
    }
  }
  return found
}

export interface IdleHolding {
  row: Row
  /** GPUs it holds that are used below the limit. */
  gpus: number
}

const mostFirst = (a: IdleHolding, b: IdleHolding): number => b.gpus - a.gpus || b.row.ran - a.row.ran || a.row.uid - b.row.uid

/** Idle workloads by their own states, the most GPUs first: for people who see no nodes. */
export const idleWorkloads = (pool: Pool): IdleHolding[] =>
  [...pool.rows.values()].filter((row) => IDLE_STATES.has(row.activity)).map((row) => ({ row, gpus: row.gpus })).sort(mostFirst)

/** What stands in place of workloads that hold idle GPUs: with one namespace shown, those of others may hold some. */
export const noIdleWords = (idleGpus: number, unmeasured = 0): string =>
  idleGpus > 0 ? 'The workloads that hold them are in namespaces that are not shown.' : unmeasured > 0 ? 'No measured GPU is idle.' : 'No allocated GPU is idle.'

/** Workloads that hold idle GPUs, the most first. */
export function idleHoldings(cells: Iterable<Cell>): IdleHolding[] {
  const found = new Map<number, IdleHolding>()
  for (const { rows, idle } of cells)
    if (idle)
      for (const row of rows) {
        const held = found.get(row.uid) ?? { row, gpus: 0 }
        held.gpus = Math.min(row.gpus, held.gpus + Math.min(1, row.gpus)) // its shares may be on one device
        found.set(row.uid, held)
      }
  return [...found.values()].sort(mostFirst)
}

/** Events of workloads that were stopped for others, newest first; a cluster has one for each pod, which are shown as one. */
export function evictions(pool: Pool, onCluster = false): PoolEvent[] {
  const known = new Set(pool.events.map((event) => event.id))
  const found = [...pool.events, ...pool.stops.filter((event) => !known.has(event.id))].filter((event) => isOf(event, 'stopping')).sort((a, b) => b.id - a.id)
  return onCluster ? once(found) : found
}

/** Return True if an event is of a kind; a stop without a beneficiary is no eviction. */
export const isOf = (event: PoolEvent, kind: string): boolean =>
  !kind || (event.kind === kind && (kind !== 'stopping' || typeof event.numbers['by'] === 'string')) || (kind === 'stopping' && event.kind === 'preempted')

export interface QueueLine {
  queue: Queue
  depth: number
}

/** Departments and projects in the order of their tree. */
export function tree(queues: Iterable<Queue>): QueueLine[] {
  const all = [...queues]
  const known = new Set(all.map((queue) => queue.name))
  const below = new Map<string | null, Queue[]>()
  for (const queue of all) {
    const parent = queue.parent !== null && known.has(queue.parent) ? queue.parent : null
    below.set(parent, [...(below.get(parent) ?? []), queue])
  }
  const lines: QueueLine[] = []
  const walk = (parent: string | null, depth: number) => {
    const found = (below.get(parent) ?? []).sort(byName)
    for (const queue of found) {
      lines.push({ queue, depth })
      if (queue.kind === 'department') walk(queue.name, depth + 1)
    }
  }
  walk(null, 0)
  return lines
}
