/** Events as lists show them. */
import { sentence } from './format'
import type { PoolEvent } from './types'

/** Copies of an event are this close to each other. */
const SAME_S = 10

/** Return events without copies: a cluster has an event of a reason for a workload, and for each of its pods. */
export function once(events: PoolEvent[]): PoolEvent[] {
  const seen = new Map<string, number>()
  return events.filter((event) => {
    const key = `${event.workload}\n${event.sentence}`
    const at = seen.get(key)
    if (event.workload !== null && at !== undefined && Math.abs(event.at_s - at) < SAME_S) return false
    seen.set(key, event.at_s)
    return true
  })
}

/** An event in a sentence: those of a cluster are written as kubectl shows them, without a capital letter and a full stop. */
export const told = (event: PoolEvent, onCluster: boolean): string => (onCluster ? sentence(event.sentence, event.pod ?? event.workload ?? '') : event.sentence)
