/** A department or project as its form edits it, and as REST takes it. */
import type { Queue } from './types'

export interface QuotaFields {
  gpus: string
  limit: string
  weight: string
  priority: string
  max_priority: string
  idle: Record<IdleRule, string>
}

export const IDLE_RULES = ['idle_notice', 'idle_unprotect', 'idle_suspend', 'idle_limit'] as const
export type IdleRule = (typeof IDLE_RULES)[number]
/** Rungs of the idle ladder in words. */
export const IDLE_WORDS: Record<IdleRule, string> = {
  idle_notice: 'Idle: notice after',
  idle_unprotect: 'Idle: GPUs open to all after',
  idle_suspend: 'Idle: suspend after',
  idle_limit: 'Idle: stop after',
}

export const fieldsOf = (queue: Queue): QuotaFields => ({
  gpus: queue.follows || queue.quota['gpu'] === undefined ? '' : String(queue.quota['gpu']),
  limit: text(queue.limit['gpu']),
  weight: text(queue.weight['gpu']),
  priority: String(queue.priority),
  max_priority: text(queue.max_priority),
  idle: Object.fromEntries(IDLE_RULES.map((rule) => [rule, text(queue.times[rule])])) as Record<IdleRule, string>,
})

const text = (value: number | null | undefined): string => (value === null || value === undefined ? '' : String(value))

/** Fields of a queue that aren't settings of it. */
const COMPUTED = new Set(['kind', 'parent', 'follows', 'allocated', 'share', 'running', 'pending', 'warnings'])

/** Return the complete object: settings that the form doesn't show, also those it doesn't know, stay as they were. */
export function entryOf(queue: Queue, fields: QuotaFields): Record<string, unknown> {
  const shown = {
    name: queue.name,
    quota: withGpus(queue.quota, fields.gpus),
    limit: withGpus(queue.limit, fields.limit),
    weight: withGpus(queue.weight, fields.weight),
    priority: Number(fields.priority || 100),
  }
  if (queue.kind === 'department') return { ...shown, parent: queue.parent }
  const kept = Object.fromEntries(Object.entries(queue).filter(([key]) => !COMPUTED.has(key)))
  const times: Record<string, number | string> = { ...queue.times }
  for (const rule of IDLE_RULES) {
    const value = fields.idle[rule].trim()
    delete times[rule]
    if (value) times[rule] = /^\d+(\.\d+)?$/.test(value) ? Number(value) : value
  }
  return { ...kept, ...shown, times, department: queue.parent, max_priority: fields.max_priority.trim() ? Number(fields.max_priority) : null }
}

function withGpus(amounts: Record<string, number>, gpus: string): Record<string, number | string> {
  const rest: Record<string, number | string> = { ...amounts }
  delete rest['gpu']
  const value = gpus.trim()
  return value ? { ...rest, gpu: /^\d+(\.\d+)?$/.test(value) ? Number(value) : value } : rest
}
