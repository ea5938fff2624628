import { describe, expect, test } from 'vitest'
import { axesOf, axisOf, byResult, curveOf, curvesOf, lineOf, placeIn, shown, spreadOf, type SweepDetail, type Trial } from '../src/logic/sweeps'

const trial = (number: number, values: (number | null)[], params: Trial['params'] = {}): Trial => ({
  number, name: `s-${number}`, uid: number, state: 'parked', params, target: 1, gpu_hours: 0,
  results: values.map((value, at) => ({ rung: [1, 3, 9][at]!, step: 1, value, promoted_among: null })),
})
const sweep = (trials: Trial[], mode = 'min'): SweepDetail => ({
  name: 's', project: 'p', user: 'mia', state: 'running', sentence: '', metric: 'loss', mode, trials: trials.length, trials_max: 9, running: 0, parked: 0,
  best: null, best_trial: null, best_rung: null, gpu_hours: 0, created_s: 0, ended_s: null, params: { lr: 'log:0.001..1', opt: 'choice:adam,sgd' }, rungs: [1, 3, 9],
  eta: 3, sampler: 'tpe', seed: 0, parallel: null, command: [], rung_rows: [], trial_rows: trials,
})

describe('sweeps', () => {
  test('the highest rung is first, then the best value; no number is the worst', () => {
    const trials = [trial(0, [0.1]), trial(1, [0.9, 0.5]), trial(2, [0.8, 0.4]), trial(3, [null]), trial(4, [])]
    expect(byResult(trials, 'min').map((each) => each.number)).toEqual([2, 1, 0, 3, 4])
    expect(byResult(trials, 'max').map((each) => each.number)).toEqual([1, 2, 0, 3, 4])
  })

  test('values have their places on their axes', () => {
    const lr = axisOf('lr', 'log:0.001..1')
    expect(lr.place(trial(0, [], { lr: 0.001 }))).toBe(0)
    expect(lr.place(trial(0, [], { lr: 0.0316227766 }))).toBeCloseTo(0.5)
    expect(lr.place(trial(0, []))).toBeNull()
    const opt = axisOf('opt', 'choice:adam,sgd,lion')
    expect(['adam', 'sgd', 'lion'].map((word) => opt.place(trial(0, [], { opt: word })))).toEqual([0, 0.5, 1])
    expect(axisOf('batch', 'choice:16,32').place(trial(0, [], { batch: 32 }))).toBe(1)
    expect(axisOf('x', 'float:0..1:0.25').place(trial(0, [], { x: 0.25 }))).toBeCloseTo(0.25)
  })

  test('the best value is at the top of the last axis', () => {
    const trials = [trial(0, [2], { lr: 1, opt: 'sgd' }), trial(1, [1], { lr: 0.001, opt: 'adam' }), ...[1.5, 1.4, 1.6].map((value, at) => trial(at + 2, [value]))]
    for (const [mode, number] of [['min', 1], ['max', 0]] as const) {
      const axes = axesOf(sweep(trials, mode))
      expect(axes.map((axis) => axis.name)).toEqual(['lr', 'opt', 'loss'])
      expect(axes[2]!.place(trials[number]!)).toBe(1)
    }
    expect(lineOf(trials[1]!, axesOf(sweep(trials)), 200, 100)).toBe('M0.0 100.0L100.0 100.0L200.0 0.0')
    expect(lineOf(trial(2, [], { lr: 1 }), axesOf(sweep(trials)), 200, 100)).toBe('M0.0 0.0')
  })

  test('a curve passes the rungs of its trial', () => {
    const trials = [trial(0, [2, 1]), trial(1, [3])]
    const spread = { best: 1, worst: 3, cut: false }
    expect(curveOf(trials[0]!, [1, 3, 9], spread, 100, 100)).toBe('M0.0 50.0L50.0 0.0')
    expect(curveOf(trial(2, []), [1, 3, 9], spread, 100, 100)).toBe('')
  })

  test('one value that went astray hides no others', () => {
    const values = [0.3, 0.4, 0.5, 0.6, 21]
    expect(spreadOf(values, 'min')).toEqual({ best: 0.3, worst: 0.6, cut: true })
    expect(spreadOf([1, 2], 'max')).toEqual({ best: 2, worst: 2, cut: true })
    expect(spreadOf([], 'min')).toBeNull()
    expect(placeIn(21, { best: 0.3, worst: 0.6, cut: true })).toBe(0)
    const trials = values.map((value, at) => trial(at, [value]))
    expect(curvesOf(sweep(trials))).toEqual({ best: 0.3, worst: 0.6, cut: true })
    expect(axesOf(sweep(trials)).at(-1)!.ticks.map((tick) => tick.text)).toEqual(['0.6 or worse', '0.3'])
  })

  test('numbers have four digits', () => {
    expect([0.00012345678, 3, 'adam', null, undefined].map(shown)).toEqual(['0.0001235', '3', 'adam', '–', '–'])
  })
})
