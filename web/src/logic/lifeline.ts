/** The life of a workload as spans of time: pending, running, suspended, and what ended each. */
import { OVER } from './pool'
import type { PoolEvent, Status } from './types'

export type Phase = 'pending' | 'running' | 'stopping' | 'suspended'

export interface Span {
  phase: Phase
  from_s: number
  until_s: number
  /** What ended it, in a sentence. */
  why: string
}

interface Life {
  submitted_s: number
  ended_s: number | null
  status: Status
  started_s: number | null
  restarts: number
}

/** Events of a pool, then those of a cluster. */
const NEXT: Record<string, Phase> = { started: 'running', stopping: 'stopping', stopped: 'pending', suspended: 'suspended', resumed: 'pending', scheduled: 'running', preempted: 'pending' }

/**
 * Return the spans of a life from its events, oldest first; `now_s` ends the last one of a live workload.
 * There are none if the events don't lead to its status: a cluster has no event of each end, and forgets old ones.
 */
export function lifeline(events: PoolEvent[], life: Life, now_s: number): Span[] {
  const spans: Span[] = []
  let phase: Phase = 'pending'
  let from_s = life.submitted_s
  const end_s = life.ended_s ?? now_s
  const put = (until_s: number, why: string) => {
    if (until_s > from_s) spans.push({ phase, from_s, until_s, why })
  }
  for (const event of [...events].sort((a, b) => a.at_s - b.at_s || a.id - b.id)) {
    let next: Phase | undefined = NEXT[event.kind]
    if (!next || event.at_s > end_s) continue
    // A running workload that is suspended stops first: it is suspended from the moment that it has stopped.
    if (event.kind === 'suspended' && phase === 'running') next = 'stopping'
    if (event.kind === 'stopped' && suspendedLast(events, event)) next = 'suspended'
    if (next === phase) continue
    put(event.at_s, event.sentence)
    phase = next
    from_s = Math.max(from_s, event.at_s)
  }
  if (life.status === 'running' && phase !== 'running') {
    if (life.started_s === null || life.restarts) return []
    put(life.started_s, '')
    phase = 'running'
    from_s = life.started_s
  }
  if (life.ended_s === null && (OVER.has(life.status) || (life.status === 'pending' && phase === 'running'))) return []
  put(end_s, life.ended_s === null ? '' : 'It ended.')
  return spans
}

function suspendedLast(events: PoolEvent[], before: PoolEvent): boolean {
  const acts = events.filter((event) => (event.kind === 'suspended' || event.kind === 'resumed') && event.id < before.id)
  return acts.sort((a, b) => b.id - a.id)[0]?.kind === 'suspended'
}

/** Seconds spent in each phase. */
export function spent(spans: Span[]): Record<Phase, number> {
  const found: Record<Phase, number> = { pending: 0, running: 0, stopping: 0, suspended: 0 }
  for (const span of spans) found[span.phase] += span.until_s - span.from_s
  return found
}
