/** What a person may do with workloads, and what came of it. */
import { Problem, send } from './api'
import { OVER } from './pool'
import type { Person, Row } from './types'

export type Act = 'stop' | 'suspend' | 'resume' | 'rerun'
export const ACTS: Act[] = ['stop', 'suspend', 'resume', 'rerun']
const DONE: Record<Act, string> = { stop: 'stopped', suspend: 'suspended', resume: 'resumed', rerun: 'submitted again' }

/** Return True if a person may submit to a project. */
export const maySubmitTo = (person: Person, project: string): boolean => (person.is_admin && !person.cluster) || person.projects.includes(project)

/** Return True if a person may submit somewhere. */
export const maySubmit = (person: Person): boolean => (person.is_admin && !person.cluster) || person.projects.length > 0

/** Return True if a person sees all of a project but the output of others. */
export const mayView = (person: Person, project: string): boolean => person.is_admin || Boolean(person.cluster) || project in (person.roles ?? {})

/** Return True if a person may control a workload or a sweep, and read its output: their own, or any as a lead. */
export const mayControl = (person: Person, row: Pick<Row, 'name' | 'user' | 'project'>): boolean =>
  person.cluster ? ['*', row.name.split('/', 1)[0]!].some((each) => person.cluster!.controls.includes(each)) : person.is_admin || person.roles?.[row.project] === 'lead' || (row.user === person.user && row.project in (person.roles ?? {}))

/** Return True if an act makes sense for a workload in its state; the pool has the last word. A Job of a cluster that is over stays over. */
export function fits(act: Act, row: Row, onCluster = false): boolean {
  const over = OVER.has(row.status)
  const suspended = row.status === 'pending' && row.why === 'suspended'
  if (act === 'rerun') return over && !onCluster
  if (act === 'resume') return suspended
  return !over && !(act === 'suspend' && suspended)
}

/** Carry out an act on workloads one after another; return a sentence of the outcome. `address` is that of a single one that no list has. */
export async function carryOut(act: Act, rows: Row[], address?: string): Promise<{ good: boolean; sentence: string }> {
  const refused: string[] = []
  let done = 0
  for (const row of rows) {
    try {
      await send('POST', `/workloads/${address === undefined ? row.uid : encodeURIComponent(address)}/${act}`)
      done++
    } catch (problem) {
      refused.push(problem instanceof Problem ? problem.message : String(problem))
    }
  }
  const said = [...new Set(refused)].slice(0, 3).join(' ')
  const what = rows.length === 1 ? rows[0]!.name : `${done} of ${rows.length} workloads`
  if (!refused.length) return { good: true, sentence: `${what}: ${DONE[act]}.` }
  return { good: false, sentence: rows.length === 1 ? said : `${what} ${DONE[act]}. ${said}` }
}
