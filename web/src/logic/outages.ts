/** Drains and maintenance windows: what the forms ask, and what is announced. */

export type Fate = 'evict' | 'finish' | 'stop'

/** What becomes of running work. */
export const FATES: Record<Fate, string> = {
  evict: 'stops and waits',
  finish: 'runs on to its end',
  stop: 'is ended for good',
}

/** A drain at a time if it has no end. Times are seconds since the epoch. */
export interface Outage {
  name: string
  node: string
  gpus: number[] | null
  from_s: number
  until_s: number | null
  reason: string
  user: string
  running: Fate
}

export interface DrainForm {
  reason: string
  /** A time of the browser's zone as its field has it; empty is now. */
  at: string
  running: Fate
}

export interface WindowForm {
  from: string
  until: string
  gpus: string
  reason: string
  running: Fate
}

export const NO_WINDOW: WindowForm = { from: '', until: '', gpus: '', reason: '', running: 'evict' }

/** Seconds since the epoch of a field for a time in the browser's zone. */
export const seconds = (field: string): number => new Date(field).getTime() / 1000

/** The drain of a form. The pool refuses one at a time that has passed by its clock: it would evict work at once. */
export function drainBody(form: DrainForm): Record<string, unknown> {
  return { reason: form.reason, running: form.running, ...(form.at ? { at_s: seconds(form.at), later_only: true } : {}) }
}

/**
 * The window of a form; an entry that is no number goes to the pool as it is, which refuses it by name.
 * Unless a person agrees, the pool refuses a window that would evict work now.
 */
export function windowBody(form: WindowForm, agreed = false): Record<string, unknown> {
  const gpus = form.gpus.split(/[\s,]+/).filter(Boolean).map((each) => (/^\d+$/.test(each) ? Number(each) : each))
  return { from_s: seconds(form.from), until_s: seconds(form.until), reason: form.reason, running: form.running, ...(gpus.length ? { gpus } : {}), ...(form.running === 'evict' && !agreed ? { later_only: true } : {}) }
}

/** What is out of service: the node, or GPUs of it. */
export const partOf = (outage: Outage): string => (outage.gpus === null ? outage.node : `GPU${outage.gpus.length === 1 ? '' : 's'} ${outage.gpus.join(', ')}`)
