/** Replays of the pool's history with alternatives. */
export interface Change {
  nodes: string
  project: string
  quota: string
  policy: string
}

export interface Numbers {
  mean: number
  low: number
  high: number
  words: string
  /** Null if the values of the seeds overlap with those of the pool as it is. */
  difference: number | null
}

export interface Replay {
  id: string
  user: string
  at_s: number
  since_s: number
  alternatives: string[]
  seeds: number
  state: 'running' | 'done' | 'failed' | 'cancelled'
  progress: number
  jobs: number
  sentence: string
  result: { verdict: string; alternatives: { name: string; numbers: Record<string, Numbers>; by_project: Record<string, Record<string, Numbers>> }[] } | null
}

/** The alternatives of a form, as `weir simulate --what-if` reads them; empty ones are left out. */
export function alternativesOf(changes: readonly Change[]): string[] {
  return changes.flatMap(({ nodes, project, quota, policy }) => {
    const parts = [
      ...(nodes.trim() ? [`add-nodes=${nodes.trim()}`] : []),
      ...(project && quota.trim() ? [`quota.${project}=${quota.trim()}`] : []),
      ...(policy ? [`policy=${policy}`] : []),
    ]
    return parts.length ? [parts.join(',')] : []
  })
}
