/** Notifications of a person and their projects, as the interface has them. */

export type Channel = 'mail' | 'slack' | 'webhook' | 'desktop'
export type DeliveryState = 'pending' | 'delivered' | 'failed'

/** A request for notifications: their kinds, and the place where they go. */
export interface Notification {
  id: number
  channel: Channel
  target: string
  on: string[]
  project: string | null
  user: string
  quiet: string
  digest_s: number
  pending: number
  dropped: number
  trouble: string | null
}

/** A message of one or more notifications. */
export interface Delivery {
  id: number
  rule: number
  channel: Channel
  target: string
  state: DeliveryState
  attempts: number
  made_s: number
  done_s: number | null
  size: number
  about: string
  error: string
}

/** Topics, with the words that explain them. */
export const TOPICS: [string, string][] = [
  ['start', 'it starts'], ['end', 'it ends'], ['failure', 'it fails'], ['eviction', 'it is evicted'], ['idle', 'it is idle'],
  ['warning', 'idle rules are about to act'], ['quota', 'GPUs of the quota are returned'], ['maintenance', 'maintenance is planned'],
]
export const CHANNELS: [Channel, string][] = [['mail', 'Mail'], ['slack', 'Slack, Mattermost'], ['webhook', 'Signed webhook'], ['desktop', 'Desktop']]

/** Fields of a new notification. */
export interface Fields {
  channel: Channel
  target: string
  on: string[]
  project: string
  quiet_from: string
  quiet_until: string
  digest: string
}

export const emptyFields = (): Fields => ({ channel: 'mail', target: '', on: ['end', 'eviction', 'warning'], project: '', quiet_from: '', quiet_until: '', digest: '' })

/** Return the body of a new notification. */
export function bodyOf(fields: Fields): Record<string, unknown> {
  const isQuiet = fields.quiet_from !== '' || fields.quiet_until !== ''
  return {
    channel: fields.channel,
    on: fields.on,
    ...(fields.channel === 'desktop' ? {} : { target: fields.target.trim() }),
    ...(fields.project ? { project: fields.project } : {}),
    ...(isQuiet ? { quiet: `${fields.quiet_from}-${fields.quiet_until}` } : {}),
    ...(fields.digest.trim() ? { digest: fields.digest.trim() } : {}),
  }
}
