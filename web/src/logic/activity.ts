/** Activity of a running workload in words. */
import type { Activity } from './types'

const MEANS: Record<string, string> = {
  working: 'its GPUs compute',
  starved: 'its GPUs are quiet',
  parked: 'it holds its GPUs, and nothing moves',
  left: 'nothing moves, and no person is connected',
  unknown: "the use of its GPUs can't be measured",
}
const SIGNS: Record<string, string> = {
  cpu: 'its processors are busy',
  disk: 'it reads or writes files',
  network: 'its network is busy',
  blocked: 'a process waits for a disk or a file server',
  user: 'a person is at it',
}

/** Return what a state means, with the signs of life and the GPUs that are quiet. */
export function activitySentence(activity: Activity): string {
  const signs = activity.signals.map((each) => SIGNS[each] ?? each).join('; ')
  const quiet = activity.quiet.length ? `, but ${activity.quiet.slice(0, 4).join(', ')} ${activity.quiet.length > 1 ? 'are' : 'is'} quiet` : ''
  const lost = activity.unprotected ? ' Any request may take its GPUs.' : ''
  return `${MEANS[activity.state ?? ''] ?? ''}${signs ? `, but ${signs}` : ''}${quiet}.${lost}`
}
