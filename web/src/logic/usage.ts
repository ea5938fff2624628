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

export interface Usage {
  since_s: number
  until_s: number
  by: string
  rows: UsageRow[]
}

export const BYS = ['project', 'department', 'user', 'type', 'node'] as const
export const PERIODS: [string, string][] = [['1d', 'Day'], ['7d', 'Week'], ['30d', 'Month'], ['365d', 'Year']]

/** GPU-hours with one decimal below 100. */
export function hours(gpu_s: number): string {
  const value = gpu_s / 3600
  return value.toLocaleString('en', { maximumFractionDigits: value < 100 ? 1 : 0 })
}

export interface UsageTotals {
  allocated: number
  used: number | null
  idle: number | null
  waiting: number
  preempted: number
}

export function totalOf(rows: UsageRow[]): UsageTotals {
  const sum = (value: (row: UsageRow) => number | null) => rows.reduce((all, row) => all + (value(row) ?? 0), 0)
  const known = (value: (row: UsageRow) => number | null) => (rows.some((row) => value(row) !== null) ? sum(value) : null)
  return {
    allocated: sum((row) => row.allocated_gpu_s),
    used: known((row) => row.used_gpu_s),
    idle: known((row) => row.idle_gpu_s),
    waiting: sum((row) => row.waiting_s),
    preempted: sum((row) => row.preempted),
  }
}

/** The most allocated first. */
export const ranked = (rows: UsageRow[]): UsageRow[] => [...rows].sort((a, b) => b.allocated_gpu_s - a.allocated_gpu_s || (a.key < b.key ? -1 : 1))
