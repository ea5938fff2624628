/** Sweeps of hyper-parameters: their trials in order, and the places of their values in pictures. */

export interface RungValue {
  rung: number
  step: number
  value: number | null
  promoted_among: number | null
}

export interface Trial {
  number: number
  name: string
  uid: number
  state: string
  params: Record<string, number | string | boolean>
  target: number
  results: RungValue[]
  gpu_hours: number
}

export interface Rung {
  rung: number
  reached: number
  promoted: number
  parked: number
  best: number | null
}

export interface Sweep {
  name: string
  project: string
  user: string
  state: string
  sentence: string
  metric: string
  mode: string
  trials: number
  trials_max: number
  running: number
  parked: number
  best: number | null
  best_trial: number | null
  best_rung: number | null
  gpu_hours: number
  created_s: number
  ended_s: number | null
}

export interface SweepDetail extends Sweep {
  params: Record<string, string>
  rungs: number[]
  eta: number
  sampler: string
  seed: number
  parallel: number | null
  command: string[]
  rung_rows: Rung[]
  trial_rows: Trial[]
}

export interface Axis {
  name: string
  /** Words at places from 0, the bottom, to 1. */
  ticks: { at: number; text: string }[]
  /** The place of a trial's value; null if it has none. */
  place: (trial: Trial) => number | null
}

/** A value as people read it. */
export function shown(value: number | string | boolean | null | undefined): string {
  if (value === null || value === undefined) return '–'
  return typeof value === 'number' ? String(Number(value.toPrecision(4))) : String(value)
}

export const lastOf = (trial: Trial): RungValue | undefined => trial.results.at(-1)

/** Trials by the rung that they reached, highest first, and then by their value there, best first. */
export function byResult(trials: readonly Trial[], mode: string): Trial[] {
  const loss = (trial: Trial) => {
    const value = lastOf(trial)?.value ?? null
    return value === null ? Infinity : mode === 'min' ? value : -value
  }
  const rung = (trial: Trial) => lastOf(trial)?.rung ?? 0
  return [...trials].sort((a, b) => rung(b) - rung(a) || loss(a) - loss(b) || a.number - b.number)
}

function between(low: number, high: number, log: boolean): (value: number) => number {
  const of = log ? Math.log : (value: number) => value
  return (value) => (high > low ? Math.min(1, Math.max(0, (of(value) - of(low)) / (of(high) - of(low)))) : 0.5)
}

/** The axis of a parameter, from its range as it was written. */
export function axisOf(name: string, range: string): Axis {
  const [kind = '', ...rest] = range.split(':')
  if (kind === 'choice') {
    const choices = rest.join(':').split(',').map((word) => word.trim())
    const at = (index: number) => (choices.length > 1 ? index / (choices.length - 1) : 0.5)
    return {
      name,
      ticks: choices.map((text, index) => ({ at: at(index), text })),
      place: (trial) => {
        const index = choices.indexOf(String(trial.params[name]))
        return index < 0 ? null : at(index)
      },
    }
  }
  const [low = 0, high = 1] = (rest[0] ?? '').split('..').map(Number)
  const place = between(low, high, kind.startsWith('log'))
  return {
    name,
    ticks: [{ at: 0, text: shown(low) }, { at: 1, text: shown(high) }],
    place: (trial) => (typeof trial.params[name] === 'number' ? place(trial.params[name]) : null),
  }
}

export interface Spread {
  best: number
  /** A fifth of the values may be worse: one that went astray would hide the others. */
  worst: number
  cut: boolean
}

/** The values of the metric that a picture shows; null if there are none. */
export function spreadOf(values: readonly number[], mode: string): Spread | null {
  if (!values.length) return null
  const sorted = [...values].sort((a, b) => (mode === 'min' ? a - b : b - a))
  const worst = sorted[Math.floor(0.8 * (sorted.length - 1))]!
  return { best: sorted[0]!, worst, cut: worst !== sorted.at(-1) }
}

/** The place of a value from 0, the worst, to 1, the best. */
export function placeIn(value: number, spread: Spread): number {
  return spread.best === spread.worst ? 0.5 : Math.min(1, Math.max(0, (value - spread.worst) / (spread.best - spread.worst)))
}

/** The axis of the metric; the best value is at the top, whatever is better. */
export function metricAxis(sweep: SweepDetail): Axis {
  const spread = spreadOf(sweep.trial_rows.flatMap((trial) => lastOf(trial)?.value ?? []), sweep.mode)
  return {
    name: sweep.metric,
    ticks: spread ? [{ at: 0, text: shown(spread.worst) + (spread.cut ? ' or worse' : '') }, { at: 1, text: shown(spread.best) }] : [],
    place: (trial) => {
      const value = lastOf(trial)?.value ?? null
      return value === null || !spread ? null : placeIn(value, spread)
    },
  }
}

export const axesOf = (sweep: SweepDetail): Axis[] => [...Object.entries(sweep.params).map(([name, range]) => axisOf(name, range)), metricAxis(sweep)]

/** The line of a trial through the axes; it is interrupted where a value is missing. */
export function lineOf(trial: Trial, axes: readonly Axis[], width: number, height: number): string {
  let text = ''
  let down = false
  axes.forEach((axis, index) => {
    const at = axis.place(trial)
    if (at === null) down = false
    else {
      const x = axes.length > 1 ? (index / (axes.length - 1)) * width : width / 2
      text += `${down ? 'L' : 'M'}${x.toFixed(1)} ${((1 - at) * height).toFixed(1)}`
      down = true
    }
  })
  return text
}

/** The values of all trials at all rungs, as the picture of their curves shows them. */
export const curvesOf = (sweep: SweepDetail): Spread | null => spreadOf(sweep.trial_rows.flatMap((each) => each.results.flatMap((result) => result.value ?? [])), sweep.mode)

/** The learning curve of a trial over the rungs, which are equally far apart; the best value is at the top. */
export function curveOf(trial: Trial, rungs: readonly number[], spread: Spread, width: number, height: number): string {
  return trial.results
    .filter((result) => result.value !== null)
    .map((result, index) => {
      const x = (rungs.indexOf(result.rung) / Math.max(1, rungs.length - 1)) * width
      return `${index ? 'L' : 'M'}${x.toFixed(1)} ${((1 - placeIn(result.value!, spread)) * height).toFixed(1)}`
    })
    .join('')
}
