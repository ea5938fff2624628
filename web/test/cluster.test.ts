import { describe, expect, test } from 'vitest'
import { isCommand } from '../src/logic/command'
import { evictionWords, told } from '../src/logic/events'
import { sorted } from '../src/logic/filter'
import { lifeline } from '../src/logic/lifeline'
import { cellsOf, evictions, idleHoldings, indicesBehind, isIdle, measurementOf, noIdleWords, pendingBy, pendingHead, pendingTitle, placeOf, totals } from '../src/logic/occupancy'
import { Pool } from '../src/logic/pool'
import type { Device, Person, PoolEvent, Row } from '../src/logic/types'

const row = (uid: number, more: Partial<Row> = {}): Row => ({
  uid, name: `team/w${uid}`, project: 'vision', user: '', type: 'train', status: 'running', gpus: 1, priority: 50,
  submitted: uid, started: uid, ran: 0, pods: 1, running: 1, pending_indices: 0, evicted: null, activity: '', why: '', sentence: '', ...more,
})
const event = (id: number, at_s: number, kind: string): PoolEvent => ({ id, at_s, kind, workload: 'team/gang', project: 'vision', pod: null, sentence: kind, numbers: {} })
const person = (namespace: string | null): Person => ({ user: 'ann', is_admin: false, projects: [], cluster: { name: 'c', namespace, controls: [], chooses: false } })

test('the newest workload is first, whatever the numbers are', () => {
  const rows = [row(9, { submitted: 10 }), row(5, { submitted: 30 }), row(7, { submitted: 20 }), row(8, { submitted: 20 })]
  expect(sorted(rows, 'newest', false, 0).map((each) => each.uid)).toEqual([5, 8, 7, 9])
})

test('the eviction of a gang is there once, though each of its pods has an event', () => {
  const pool = new Pool()
  pool.addEvents([1, 2, 3].map((id) => event(id, 100, 'preempted')))
  expect(evictions(pool, true).map((each) => each.id)).toEqual([3])
})

test('an event of a cluster is a sentence, and names keep their case', () => {
  const of = (sentence: string, pod: string | null = null) => told({ ...event(1, 0, 'x'), sentence, pod }, true)
  expect(of('stopped for a/b (reclaim_quota): c holds 3')).toBe('Stopped for a/b (reclaim of quota): c holds 3.')
  expect(of('stopped for a/b (reclaim of quota): c holds 3')).toBe('Stopped for a/b (reclaim of quota): c holds 3.')
  expect(of('notebook is placed on gpu-0.', 'notebook')).toBe('notebook is placed on gpu-0.')
})

test('an eviction says its beneficiary and its rule once, in words', () => {
  const found = { at_s: 1, rule: 'reclaim_quota', by: 'a/b', by_user: null, by_project: 'nlp', sentence: 'stopped for a/b (reclaim of quota): c holds 3', choice: 'It lost 1 GPU-hour.' }
  expect(evictionWords(found)).toBe(' for a/b of nlp (reclaim of quota): c holds 3. It lost 1 GPU-hour.')
  const ofOlder = { ...found, sentence: 'stopped for a/b (reclaim_quota): c holds 3' }
  expect(evictionWords(ofOlder)).toBe(evictionWords(found))
  expect(evictionWords({ ...found, rule: 'repack', sentence: 'stopped for a/b (repacking)', choice: '' })).toBe(' for a/b of nlp (repacking).')
  expect(evictionWords({ ...found, by: null, by_project: null, rule: 'gang_broken', sentence: 'its gang is broken', choice: '' })).toBe(' (broken gang): its gang is broken.')
})

describe('a life of which events are missing', () => {
  const life = { submitted_s: 0, ended_s: null, started_s: null, restarts: 0 }
  test('has no line where they contradict the status', () => {
    const events = [event(1, 10, 'scheduled')]
    expect(lifeline(events, { ...life, status: 'pending' }, 99)).toEqual([])
    expect(lifeline(events, { ...life, status: 'failed' }, 99)).toEqual([])
    expect(lifeline([], { ...life, status: 'running', started_s: 50, restarts: 1 }, 99)).toEqual([])
  })
  test('runs from its start, which the workload itself tells', () => {
    expect(lifeline([], { ...life, status: 'running', started_s: 40 }, 99).map((each) => [each.phase, each.from_s, each.until_s])).toEqual([['pending', 0, 40], ['running', 40, 99]])
  })
})

describe('pending', () => {
  test('indices behind those that run are counted apart', () => {
    const pool = new Pool()
    for (const each of [row(1, { pending_indices: 50 }), row(2, { status: 'pending', pending_indices: 10 }), row(3)]) pool.rows.set(each.uid, each)
    expect(indicesBehind(pool)).toBe(50)
    expect(pendingBy(pool).get('vision')).toBe(1)
  })
  test('with one namespace shown, the words say so', () => {
    expect([pendingHead(person(null)), pendingHead(person('team'))]).toEqual(['Pending', 'Pending here'])
    expect(pendingTitle(person('team'))).toContain('Only those of namespace team count.')
    expect(pendingTitle(person(null))).not.toContain('namespace')
  })
  test('a place in a queue says that indices have places', () => {
    const pending = new Map([['vision', 2]])
    expect(placeOf({ position: 1, waiting: 2 }, 'vision', pending)).toBe('number 1 of 2 in the queue of vision')
    expect(placeOf({ position: 1, waiting: 51 }, 'vision', pending)).toBe('number 1 of 51 in the queue of vision, where each index of an array counts')
  })
})

test('idle GPUs of namespaces that are not shown are not denied', () => {
  expect([noIdleWords(0), noIdleWords(8)]).toEqual(['No allocated GPU is idle.', 'The workloads that hold them are in namespaces that are not shown.'])
})

test('a way to a change is a command or a sentence', () => {
  expect(['kubectl annotate -n a job b c=1', 'weir resume a/b', "its pods can't be changed: delete the Job"].map(isCommand)).toEqual([true, true, false])
})

describe('a GPU without a measurement', () => {
  const gpu = (index: number, more: Partial<Device>): Device => ({
    index, model: null, memory: 0, allocated: 1, use: null, memory_used: null, temperature_c: null, power_w: null, errors: null,
    workloads: ['team/w1'], foreign: null, drained: null, activity: 'unknown', ...more,
  })
  const pool = new Pool()
  pool.nodes.set('n', {
    name: 'n', capacity: {}, allocated: {}, labels: {}, pods: 1, virtual: false, others: 0, state: [],
    devices: [gpu(0, { activity: 'quiet' }), gpu(1, {}), gpu(2, { use: 0, activity: 'quiet' }), gpu(3, { use: 0.9, memory_used: 8, activity: 'working' })],
  })
  pool.rows.set(1, row(1, { gpus: 4 }))
  pool.names.set('team/w1', pool.rows.get(1)!)
  const devices = pool.nodes.get('n')!.devices

  test('is unknown, and never idle', () => {
    expect(devices.map(isIdle)).toEqual([false, false, true, false])
    const cells = cellsOf(pool, pool.nodes.get('n')!, new Set())
    expect(totals(cells)).toMatchObject({ allocated: 4, idle: 1, unmeasured: 2 })
    expect(idleHoldings(cells).map((each) => each.gpus)).toEqual([1])
    expect(noIdleWords(0, 2)).toBe('No measured GPU is idle.')
  })

  test('counts for no mean and no sum', () => {
    expect(measurementOf(devices)).toEqual({ use: 0.45, memory: null, unmeasured: 2 })
    expect(measurementOf(devices.slice(0, 2))).toEqual({ use: null, memory: null, unmeasured: 2 })
    expect(measurementOf([])).toEqual({ use: null, memory: null, unmeasured: 0 })
  })
})
