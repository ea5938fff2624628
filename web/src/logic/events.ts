/** Events as lists show them. */
import { ruleInWords, ruleWords, sentence } from './format'
import type { Eviction, PoolEvent } from './types'

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
export const told = (event: PoolEvent, onCluster: boolean): string =>
  ruleInWords(onCluster ? sentence(event.sentence, event.pod ?? event.workload ?? '') : event.sentence)

/** The beneficiary, the rule and the numbers of an eviction, each once: the sentence begins with the first two. */
export function evictionWords(found: Eviction): string {
  const heads = [ruleWords(found.rule), found.rule].map((rule) => `stopped for ${found.by ?? ''} (${rule})`)
  const head = heads.find((each) => found.sentence.startsWith(each))
  const rest = head === undefined ? found.sentence : found.sentence.slice(head.length).replace(/^: /, '')
  const by = found.by ? ` for ${found.by}${found.by_project ? ` of ${found.by_project}` : ''}` : ''
  const why = rest ? `: ${rest.replace(/\.$/, '')}.` : '.'
  return `${by} (${ruleWords(found.rule)})${ruleInWords(why)}${found.choice ? ` ${found.choice}` : ''}`
}
