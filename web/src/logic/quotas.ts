/** A department or project as its form edits it, and as REST takes it. */
import { get, Problem, send } from './api'
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
const COMPUTED = new Set(['kind', 'parent', 'follows', 'allocated', 'share', 'running', 'pending', 'warnings', 'version'])

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

/** A queue by itself, with the version of its settings. */
export interface QueueDetail extends Queue {
  version: string
}

/** A setting that another person has changed meanwhile, where this person has changed it too. */
export interface Clash {
  word: string
  was: string
  now: string
}

/** Names of the fields in words, as the form shows them. */
export const WORDS: Record<Exclude<keyof QuotaFields, 'idle'>, string> = {
  gpus: 'GPU quota',
  limit: 'GPU limit',
  weight: 'Weight of idle GPUs',
  priority: 'Priority among siblings',
  max_priority: 'Highest priority of members',
}

type Flat = Record<string, string>
const flat = ({ idle, ...rest }: QuotaFields): Flat => ({ ...rest, ...idle })
const nested = (fields: Flat): QuotaFields => {
  const { gpus, limit, weight, priority, max_priority } = fields as unknown as QuotaFields
  return { gpus, limit, weight, priority, max_priority, idle: Object.fromEntries(IDLE_RULES.map((rule) => [rule, fields[rule]!])) as Record<IdleRule, string> }
}

/** Return the fields over newer settings: those that were typed stay, the others become newer. `clashes` are those that both changed. */
export function rebased(typed: QuotaFields, before: QuotaFields, newer: QuotaFields): { fields: QuotaFields; clashes: Clash[] } {
  const [mine, was, now] = [flat(typed), flat(before), flat(newer)]
  const clashes: Clash[] = []
  const fields: Flat = {}
  for (const key in mine) {
    const own = mine[key] !== was[key]
    fields[key] = own ? mine[key]! : now[key]!
    if (own && now[key] !== was[key] && now[key] !== mine[key]) clashes.push({ word: (WORDS as Flat)[key] ?? IDLE_WORDS[key as IdleRule], was: was[key]!, now: now[key]! })
  }
  return { fields: nested(fields), clashes }
}

const settings = (queue: Queue): string => JSON.stringify(entryOf(queue, fieldsOf(queue)))

const TRIES = 3
const CONFLICT = 409

export type Saved = { saved: QueueDetail } | { newer: QueueDetail }

export const pathOf = (queue: Queue): string => `/${queue.kind}s/${encodeURIComponent(queue.name)}`

/**
 * Save a queue if no other person has changed its settings since they were loaded; else return the newer ones, unsaved.
 * A version that differs although no setting of this queue does, such as that of a sum of others, is taken over.
 */
export async function save(loaded: QueueDetail, fields: QuotaFields): Promise<Saved> {
  for (let left = TRIES - 1, version = loaded.version; ; left--) {
    try {
      const query = version ? `?version=${encodeURIComponent(version)}` : ''
      return { saved: await send<QueueDetail>('PUT', pathOf(loaded) + query, entryOf(loaded, fields)) }
    } catch (problem) {
      if (!(problem instanceof Problem) || problem.status !== CONFLICT) throw problem
      const newer = await get<QueueDetail>(pathOf(loaded)).catch(() => Promise.reject(problem))
      if (newer.version === version || !left) throw problem
      if (settings(newer) !== settings(loaded)) return { newer }
      version = newer.version
    }
  }
}
