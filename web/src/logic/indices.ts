/** Indices of an array: their numbers by status, and what may be done with one. */
import { OVER } from './pool'
import type { Explanation, Status } from './types'

/** Indices of an array by status. */
export interface ArrayCounts {
  written: string
  size: number
  pending: number
  running: number
  succeeded: number
  failed: number
  stopped: number
}

/** An index of an array; its number as a workload is null until it is queued. */
export interface ArrayIndexRow {
  index: number
  name: string
  status: Status
  uid: number | null
  first_started_s: number | null
  ended_s: number | null
  ran_s: number
  exit_code: number | null
  restarts: number
  reason: Explanation | null
}

/** A page of indices in ascending order. */
export interface ArrayIndexPage {
  total: number
  next: string | null
  items: ArrayIndexRow[]
}

const STATES = ['succeeded', 'failed', 'stopped', 'running', 'pending'] as const
export type CountedState = (typeof STATES)[number]

/** Return the states that some index has, with their numbers, in the order in which they are drawn. */
export const partsOf = (counts: ArrayCounts): { state: CountedState; number: number }[] =>
  STATES.map((state) => ({ state, number: counts[state] })).filter((part) => part.number > 0)

/** Return True if an index can still be stopped. */
export const mayStop = (row: ArrayIndexRow): boolean => !OVER.has(row.status)
