/** Answers of the pool, as its REST interface has them; only the fields that the page shows. */
import type { ArrayCounts } from './indices'

export type Status = 'pending' | 'starting' | 'running' | 'stopping' | 'succeeded' | 'failed' | 'stopped'
export type Amounts = Record<string, number>

/** A workload of the list. Times are seconds since the epoch; `ran` is the run time before the current run. */
export interface Row {
  uid: number
  name: string
  project: string
  user: string
  type: string
  status: Status
  gpus: number
  priority: number
  submitted: number
  started: number | null
  ran: number
  pods: number
  running: number
  /** Of an array; 0 for other workloads. */
  pending_indices: number
  evicted: number | null
  /** working, starved, parked, left or unknown; empty if it isn't known. */
  activity: string
  why: string
  sentence: string
}

export interface Queue {
  name: string
  kind: 'department' | 'project'
  parent: string | null
  quota: Amounts
  follows: boolean
  limit: Amounts
  weight: Amounts
  priority: number
  max_priority: number | null
  max_priority_of: Record<string, number>
  times: Record<string, number>
  allocated: Amounts
  share: Amounts
  running: number
  pending: number
  warnings: string[]
}

export interface Device {
  index: number
  model: string | null
  memory: number
  allocated: number
  use: number | null
  memory_used: number | null
  temperature_c: number | null
  power_w: number | null
  errors: number | null
  workloads: string[]
  foreign: string | null
  /** By whom and why nothing starts on it. */
  drained: string | null
  /** States of the workloads on it; quiet: its workload computes on other GPUs. */
  activity: string | null
}

export interface PoolNode {
  name: string
  devices: Device[]
  capacity: Amounts
  allocated: Amounts
  labels: Record<string, string>
  pods: number
  virtual: boolean
  others: number
  state: string[]
}

export interface PoolEvent {
  id: number
  at_s: number
  kind: string
  workload: string | null
  project: string | null
  pod: string | null
  sentence: string
  numbers: Record<string, unknown>
}

export interface PoolState {
  trouble: string | null
  policy: string
  /** Grows with each reading of the devices. */
  readings?: number
}

export interface Person {
  user: string
  is_admin: boolean
  /** Where they may submit. */
  projects: string[]
  /** Role by department and project. */
  roles?: Record<string, string>
  proof?: string | null
  /** Null for a pool on one machine. */
  cluster?: ClusterScope | null
}

/** The cluster that the page shows, as far as its person's rights go. */
export interface ClusterScope {
  name: string
  /** The only one that is shown; null for all. */
  namespace: string | null
  /** Namespaces in which they may stop and suspend Jobs; * for all. */
  controls: string[]
  /** They choose the namespace on the page; an empty one is still to be chosen. */
  chooses: boolean
}

export interface Explanation {
  why: string
  sentence: string
  numbers: Record<string, unknown>
}

export interface Suggestion {
  sentence: string
  change: Record<string, unknown>
  at_s: number | null
  how: string | null
}

export interface Eviction {
  at_s: number
  rule: string
  sentence: string
  by: string | null
  by_user: string | null
  by_project: string | null
  choice: string
}

/** Activity of a workload that runs on GPUs. */
export interface Activity {
  state: string | null
  since_s: number | null
  signals: string[]
  quiet: string[]
  warning: string | null
  unprotected: boolean
  extended_until_s: number | null
}

export interface Why {
  name: string
  status: Status
  reason: Explanation | null
  evicted: Eviction | null
  position: number | null
  waiting: number
  activity: Activity | null
  queues: Queue[]
  suggestions: Suggestion[]
  /** Kinds of changes that weren't tried to the end for lack of time. */
  untried: string[]
  /** Suggestions are still being tried: a later answer has them. */
  unfinished: boolean
  /** There are no suggestions, because they may name work that the person may not see. */
  withheld: boolean
}

export interface Pod {
  name: string
  status: Status
  node: string | null
  devices: number[]
  start: number | null
  since_s: number | null
  exit: string | null
}

/** A workload as lists by REST have it. */
export interface RestRow {
  uid: number
  name: string
  project: string
  user: string
  type: string
  status: Status
  priority: number
  preemptible: boolean
  devices: number
  pods: number
  pods_running: number
  submitted_s: number
  first_started_s: number | null
  started_s: number | null
  ended_s: number | null
  ran_s: number
  ran_before_s: number
  kept_s: number
  exit_code: number | null
  restarts: number
  reason: Explanation | null
  evicted: Eviction | null
  nodes: string[]
  activity: Activity | null
  progress: number | null
  /** Of an array, which one row stands for. */
  array: ArrayCounts | null
  /** Of an index, its array. */
  array_uid: number | null
}

export type Isolation = 'enforced' | 'cooperative' | 'none'

export interface Detail extends RestRow {
  pod_rows: Pod[]
  command: string[] | null
  env: Record<string, string> | null
  secrets: Record<string, string> | null
  directory: string | null
  session: 'jupyter' | 'code' | null
  image: string | null
  max_runtime_s: number | null
  checkpoints: string | null
  checkpointed_s: number | null
  gpu_access: Isolation | null
  gpu_access_by: string | null
  gpu_memory: Isolation | null
  gpu_memory_by: string | null
  gpu_memory_why: string | null
  step: number | null
  reported: Record<string, number>
  events: PoolEvent[]
}

/** A curve of a workload; points are times and values. */
export interface Series {
  name: string
  kind: 'reported' | 'measured'
  unit: string
  points: [number, number][]
}

export interface SeriesAnswer {
  stands_in: boolean
  series: Series[]
  note: string | null
}

export interface Page<Item> {
  total: number
  next: string | null
  /** What is missing in it, in a sentence: a cluster's history may be short, or away. */
  note?: string | null
  items: Item[]
}
