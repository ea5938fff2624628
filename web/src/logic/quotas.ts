/** A department or project as its form edits it, and as REST takes it. */
import type { Queue } from './types'

export interface QuotaFields {
  gpus: string
  limit: string
  weight: string
  priority: string
  max_priority: string
}

export const fieldsOf = (queue: Queue): QuotaFields => ({
  gpus: queue.follows || queue.quota['gpu'] === undefined ? '' : String(queue.quota['gpu']),
  limit: text(queue.limit['gpu']),
  weight: text(queue.weight['gpu']),
  priority: String(queue.priority),
  max_priority: text(queue.max_priority),
})

const text = (value: number | null | undefined): string => (value === null || value === undefined ? '' : String(value))

/** Return the complete object, with what the form doesn't show as it was. */
export function entryOf(queue: Queue, fields: QuotaFields): Record<string, unknown> {
  const entry: Record<string, unknown> = {
    name: queue.name,
    quota: withGpus(queue.quota, fields.gpus),
    limit: withGpus(queue.limit, fields.limit),
    weight: withGpus(queue.weight, fields.weight),
    priority: Number(fields.priority || 100),
  }
  if (queue.kind === 'department') return queue.parent === null ? entry : { ...entry, parent: queue.parent }
  if (queue.parent !== null) entry['department'] = queue.parent
  if (fields.max_priority.trim()) entry['max_priority'] = Number(fields.max_priority)
  if (Object.keys(queue.max_priority_of).length) entry['max_priority_of'] = queue.max_priority_of
  if (Object.keys(queue.times).length) entry['times'] = queue.times
  return entry
}

function withGpus(amounts: Record<string, number>, gpus: string): Record<string, number | string> {
  const rest: Record<string, number | string> = { ...amounts }
  delete rest['gpu']
  const value = gpus.trim()
  return value ? { ...rest, gpu: /^\d+(\.\d+)?$/.test(value) ? Number(value) : value } : rest
}
