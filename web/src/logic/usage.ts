import type { ChartPoint } from './chart'
import { brief } from './format'

/** Usage over a time, by one kind of key, as `weir report usage` has it. */
export interface UsageRow {
  key: string
  allocated_gpu_s: number
  used_gpu_s: number | null
  idle_gpu_s: number | null
  over_quota_gpu_s: number
  waiting_s: number
  workloads: number
  ended: number
  preempted: number
}

/** Percentiles of times in seconds; null without any. Those of many are rounded to 2.5 %. */
export interface WaitTimes {
  count: number
  p50_s: number | null
  p90_s: number | null
  rounded: boolean
}

export interface HistoryRow extends UsageRow {
  waits: WaitTimes
  to_quota: WaitTimes
  evicted: number
  lost_gpu_s: number
  cost: number | null
}

export interface History {
  since_s: number
  until_s: number
  by: string
  currency: string | null
  rows: HistoryRow[]
  total: HistoryRow
  note: string | null
  rules: { rule: string; count: number; lost_gpu_s: number }[]
  points: { at_s: number; span_s: number; allocated_gpu_s: number; used_gpu_s: number; over_quota_gpu_s: number; waiting_s: number }[]
}

export const BYS = ['project', 'department', 'user', 'type', 'node', 'gpu_model'] as const
/** Keys that the objects of a cluster tell. */
export const CLUSTER_BYS: ReadonlySet<string> = new Set(['project', 'department', 'user', 'type', 'node'])
export const BY_WORDS: Record<(typeof BYS)[number], string> = { project: 'project', department: 'department', user: 'user', type: 'type', node: 'node', gpu_model: 'GPU model' }
export const PERIODS: [string, string][] = [['1d', 'Day'], ['7d', 'Week'], ['30d', 'Month'], ['365d', 'Year']]

/** GPU-hours with one decimal below 100. */
export function hours(gpu_s: number): string {
  const value = gpu_s / 3600
  return value.toLocaleString('en', { minimumFractionDigits: value < 100 ? 1 : 0, maximumFractionDigits: value < 100 ? 1 : 0 })
}

/** A line of the mean number of GPUs of which this time is. */
export const gpusOf = (points: History['points'], value: (point: History['points'][number]) => number): ChartPoint[] =>
  points.map((point) => ({ at_s: point.at_s + point.span_s / 2, value: value(point) / point.span_s }))

/** P50 and P90 as people read them. */
export function both({ count, p50_s, p90_s, rounded }: WaitTimes): string {
  const time = (value: number | null) => (value === null ? '–' : brief(value))
  return count ? `${rounded ? '≈ ' : ''}${time(p50_s)} / ${time(p90_s)}` : '–'
}

export const money = (value: number | null, currency: string | null): string =>
  value === null ? '–' : `${value.toLocaleString('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 })} ${currency ?? ''}`.trim()

/** Rows as cells of a CSV, in the units of `weir report history --output csv`. */
export function historyCells(found: History): unknown[][] {
  const times = (each: WaitTimes) => [each.count, each.p50_s, each.p90_s]
  const head = [found.by, 'allocated_gpu_s', 'used_gpu_s', 'idle_gpu_s', 'evicted', 'lost_gpu_s', 'cost',
    'waits_count', 'waits_p50_s', 'waits_p90_s', 'to_quota_count', 'to_quota_p50_s', 'to_quota_p90_s']
  return [head, ...found.rows.map((row) => [row.key, row.allocated_gpu_s, row.used_gpu_s, row.idle_gpu_s, row.evicted, row.lost_gpu_s, row.cost, ...times(row.waits), ...times(row.to_quota)])]
}
