/** The pool as the page knows it: a list, and the changes that follow it. */
import type { PoolEvent, PoolNode, PoolState, Queue, RestRow, Row, Status } from './types'

export const OVER: ReadonlySet<Status> = new Set(['succeeded', 'failed', 'stopped'])
export const EVENTS_MAX = 500
const ENDED_MAX = 200

const COLUMNS = 'uid,name,project,user,type,status,gpus,priority,submitted,started,ran,pods,running,pending_indices,evicted,activity,why,sentence'

type Values = unknown[]

/** A line of the stream. */
export interface Frame {
  kind: 'list' | 'delta' | 'events' | 'administration'
  now?: number
  columns?: string[]
  rows?: Values[]
  ended?: Values[]
  queues?: Queue[]
  nodes?: PoolNode[]
  gone?: { queues: string[]; nodes: string[] }
  status?: PoolState
  events?: PoolEvent[]
  replay?: RunningReplay | null
  /** Number of lines of the audit log, for administrators. */
  audit?: number | null
}

/** The replay that runs now. */
export interface RunningReplay {
  id: string
  progress: number
}

export class Pool {
  rows = new Map<number, Row>()
  ended = new Map<number, Row>()
  queues = new Map<string, Queue>()
  nodes = new Map<string, PoolNode>()
  status: PoolState = { trouble: null, policy: '' }
  /** Newest first. */
  events: PoolEvent[] = []
  replay: RunningReplay | null = null
  audit: number | null = null
  /** Stops that the store told of when the page began; later ones are among the events. */
  stops: PoolEvent[] = []
  /** Workloads by name: a name is of one live workload. */
  names = new Map<string, Row>()
  /** Server's clock less this browser's, in seconds. */
  ahead_s = 0
  private columns: string[] = []
  private usual = false

  /** Take in a frame; return the numbers of the workloads that changed. */
  take(frame: Frame, now_s: number): number[] {
    if (frame.now !== undefined) this.ahead_s = Math.abs(frame.now - now_s) < 1.5 ? 0 : frame.now - now_s
    if (frame.kind === 'events') {
      this.addEvents(frame.events ?? [])
      return []
    }
    if (frame.kind === 'administration' || frame.kind === 'list') {
      this.replay = frame.replay ?? null
      this.audit = frame.audit ?? null
    }
    if (frame.kind === 'administration') return []
    if (frame.kind === 'list') {
      this.columns = frame.columns ?? []
      this.usual = this.columns.join() === COLUMNS
      this.rows = new Map()
      this.names = new Map()
      this.ended = new Map()
      this.queues = new Map()
      this.nodes = new Map()
      for (const values of frame.ended ?? []) this.setEnded(this.row(values))
    }
    for (const queue of frame.queues ?? []) this.queues.set(queue.name, queue)
    for (const node of frame.nodes ?? []) this.nodes.set(node.name, node)
    for (const name of frame.gone?.queues ?? []) this.queues.delete(name)
    for (const name of frame.gone?.nodes ?? []) this.nodes.delete(name)
    if (frame.status) this.status = frame.status
    const changed: number[] = []
    for (const values of frame.rows ?? []) {
      const row = this.row(values)
      this.setRow(row)
      if (frame.kind === 'delta') changed.push(row.uid)
    }
    return changed
  }

  /** The frame that makes another page's pool equal to this one. */
  list(): Frame {
    const values = (row: Row) => this.columns.map((name) => row[name as keyof Row])
    return {
      kind: 'list',
      columns: this.columns,
      rows: [...this.rows.values()].map(values),
      ended: [...this.ended.values()].map(values),
      queues: [...this.queues.values()],
      nodes: [...this.nodes.values()],
      status: this.status,
      replay: this.replay,
      audit: this.audit,
    }
  }

  /** Add events, by their number once each, newest first. */
  addEvents(events: PoolEvent[]): void {
    const known = new Set(this.events.map((event) => event.id))
    const fresh = events.filter((event) => !known.has(event.id))
    if (!fresh.length) return
    this.events = [...fresh, ...this.events].sort((a, b) => b.id - a.id).slice(0, EVENTS_MAX)
  }

  /** A row from its values. Rows that are written out share one shape, which makes long lists fast. */
  private row(values: Values): Row {
    if (!this.usual) return Object.fromEntries(this.columns.map((name, at) => [name, values[at]])) as unknown as Row
    const [uid, name, project, user, type, status, gpus, priority, submitted, started, ran, pods, running, pending_indices, evicted, activity, why, sentence] = values
    return { uid, name, project, user, type, status, gpus, priority, submitted, started, ran, pods, running, pending_indices, evicted, activity, why, sentence } as Row
  }

  private setRow(row: Row): void {
    if (OVER.has(row.status)) {
      this.rows.delete(row.uid)
      if (this.names.get(row.name)?.uid === row.uid) this.names.delete(row.name)
      this.setEnded(row)
    } else {
      this.rows.set(row.uid, row)
      this.names.set(row.name, row)
    }
  }

  private setEnded(row: Row): void {
    this.ended.set(row.uid, row)
    if (this.ended.size > ENDED_MAX) this.ended.delete(this.ended.keys().next().value!)
  }
}

/** A workload of a REST list as a row of the table. */
export function rowOf(found: RestRow): Row {
  return {
    uid: found.uid,
    name: found.name,
    project: found.project,
    user: found.user,
    type: found.type,
    status: found.status,
    gpus: found.devices,
    priority: found.priority,
    submitted: found.submitted_s,
    started: found.started_s,
    ran: found.ended_s === null ? found.ran_before_s : found.ran_s,
    pods: found.pods,
    running: found.pods_running,
    pending_indices: found.array?.pending ?? 0,
    evicted: found.evicted?.at_s ?? null,
    activity: found.activity?.state ?? '',
    why: found.reason?.why ?? (found.activity?.warning ? 'idle' : ''),
    sentence: found.reason?.sentence ?? found.activity?.warning ?? '',
  }
}

/** Run time of all runs up to a time. */
export function ranFor(row: Row, now_s: number): number {
  if (row.started === null || OVER.has(row.status)) return row.ran
  return row.ran + Math.max(0, now_s - row.started)
}
