import { nearest, path, roundUp, scaleOf } from '../src/logic/chart'
import { describe, expect, test } from 'vitest'
import { carryOut, fits, mayControl, maySubmitTo } from '../src/logic/acts'
import { commandLine, commandOf, EMPTY, quoted, split, submission, yaml } from '../src/logic/command'
import { csv } from '../src/logic/csv'
import { counts, matches, parseFilter, resorted, sorted, toggled } from '../src/logic/filter'
import { once } from '../src/logic/events'
import { ago, amount, brief, byName, bytes, colourOf, domainOf, named, sentence, shortOf, span } from '../src/logic/format'
import { memorySentence } from '../src/logic/isolation'
import { lifeline, spent } from '../src/logic/lifeline'
import { lines, pieces } from '../src/logic/lines'
import { drainBody, NO_WINDOW, partOf, seconds, windowBody } from '../src/logic/outages'
import { borrowers, cellsOf, evictions, idleHoldings, idleWorkloads, isIdle, knowsActivity, pendingBy, queueHead, totals, tree } from '../src/logic/occupancy'
import { Pool, ranFor } from '../src/logic/pool'
import { entryOf, fieldsOf } from '../src/logic/quotas'
import { both, gpusOf, historyCells, money } from '../src/logic/usage'
import { alternativesOf } from '../src/logic/whatif'
import { codeOf, href, parseRoute } from '../src/logic/route'
import type { Device, PoolEvent, PoolNode, Queue, Row } from '../src/logic/types'

const row = (uid: number, more: Partial<Row> = {}): Row => ({
  uid, name: `w${uid}`, project: 'vision', user: 'mia', type: 'train', status: 'running', gpus: 1, priority: 50,
  submitted: uid, started: uid, ran: 0, pods: 1, running: 1, pending_indices: 0, evicted: null, activity: '', why: '', sentence: '', ...more,
})
const queue = (name: string, more: Partial<Queue> = {}): Queue => ({
  name, kind: 'project', parent: null, quota: { gpu: 2 }, follows: false, limit: {}, weight: {}, priority: 100,
  max_priority: null, max_priority_of: {}, times: {}, allocated: { gpu: 0 }, share: {}, running: 0, pending: 0, warnings: [], ...more,
})
const device = (index: number, more: Partial<Device> = {}): Device => ({
  index, model: null, memory: 1, allocated: 0, use: null, memory_used: null, temperature_c: null, power_w: null, errors: null, workloads: [], foreign: null, drained: null, activity: null, ...more,
})
const node = (devices: Device[]): PoolNode => ({ name: 'n1', devices, capacity: {}, allocated: {}, labels: {}, pods: 0, virtual: true, others: 0, state: [] })
const columns = Object.keys(row(1))
const values = (of: Row) => columns.map((name) => of[name as keyof Row])

describe('events', () => {
  const event = (id: number, at_s: number, workload: string | null, text: string): PoolEvent => ({
    id, at_s, kind: 'over_quota', workload, project: 'a', pod: null, sentence: text, numbers: {},
  })

  test('a reason that pods share is there once, and again when it is given again', () => {
    const all = [event(5, 100, 'ns/b', 'full'), event(4, 52, 'ns/a', 'full'), event(3, 41, 'ns/a', 'full'), event(2, 40, 'ns/a', 'full'), event(1, 40, null, 'full'), event(0, 40, null, 'full')]
    expect(once(all).map((each) => each.id)).toEqual([5, 4, 3, 1, 0])
  })
})

describe('pool', () => {
  test('list, then deltas, then a list again', () => {
    const pool = new Pool()
    pool.take({ kind: 'list', columns, rows: [values(row(1)), values(row(2))], ended: [], queues: [queue('a')], nodes: [] }, 0)
    expect([...pool.rows.keys()]).toEqual([1, 2])
    expect(pool.take({ kind: 'delta', rows: [values(row(1, { status: 'failed' })), values(row(3))], gone: { queues: ['a'], nodes: [] } }, 0)).toEqual([1, 3])
    expect([...pool.rows.keys()]).toEqual([2, 3])
    expect(pool.ended.get(1)?.status).toBe('failed')
    expect(pool.names.has('w1')).toBe(false)
    expect(pool.queues.size).toBe(0)
    const copy = new Pool()
    copy.take(JSON.parse(JSON.stringify(pool.list())), 0)
    expect([...copy.rows.values()]).toEqual([...pool.rows.values()])
    pool.take({ kind: 'list', columns, rows: [], ended: [] }, 0)
    expect(pool.rows.size + pool.ended.size).toBe(0)
  })
  test('events are there once, newest first', () => {
    const pool = new Pool()
    const event = (id: number) => ({ id }) as PoolEvent
    pool.addEvents([event(2), event(1)])
    pool.take({ kind: 'events', events: [event(3), event(2)] }, 0)
    expect(pool.events.map((each) => each.id)).toEqual([3, 2, 1])
  })
  test('run time goes on only while it runs', () => {
    expect(ranFor(row(1, { started: 10, ran: 5 }), 20)).toBe(15)
    expect(ranFor(row(1, { started: null, ran: 5 }), 20)).toBe(5)
    expect(ranFor(row(1, { status: 'failed', started: 10, ran: 5 }), 20)).toBe(5)
  })
})

describe('filter', () => {
  test('keys, words and me', () => {
    const filter = parseFilter('project:vision,nlp user:me Res colour:red', 'mia')
    expect(filter.unknown).toEqual(['colour:red'])
    expect(matches(row(1, { name: 'resnet' }), filter)).toBe(true)
    expect(matches(row(1, { name: 'resnet', user: 'tom' }), filter)).toBe(false)
    expect(matches(row(1, { name: 'bert' }), filter)).toBe(false)
  })
  test('a value is set, replaced and taken out', () => {
    expect(toggled('res', 'status', 'running')).toBe('res status:running')
    expect(toggled('res status:running', 'status', 'pending')).toBe('res status:pending')
    expect(toggled('res status:pending', 'status', 'pending')).toBe('res')
  })
  test('orders and counts', () => {
    const rows = [row(1, { gpus: 4, name: 'b' }), row(2, { gpus: 1, name: 'a' })]
    expect(counts(rows)).toEqual({ running: 2 })
    expect(sorted(rows, 'newest', false, 0).map((each) => each.uid)).toEqual([2, 1])
    expect(sorted(rows, 'name', false, 0).map((each) => each.uid)).toEqual([2, 1])
    expect(sorted(rows, 'gpus', true, 0).map((each) => each.uid)).toEqual([1, 2])
  })

  test('a list stays sorted as rows come, change and go', () => {
    const random = (seed: number) => () => (seed = (seed * 48271) % 2147483647) / 2147483647
    for (const order of ['newest', 'name', 'project', 'status', 'gpus', 'age', 'ran'])
      for (const down of [false, true]) {
        const next = random(7)
        const made = (uid: number) => row(uid, { name: `w${Math.floor(next() * 20)}`, project: `p${Math.floor(next() * 3)}`, gpus: Math.floor(next() * 4), status: next() < 0.5 ? 'pending' : 'running' })
        const all = new Map([...Array(60).keys()].map((uid) => [uid, made(uid)]))
        let list = sorted([...all.values()], order, down, 100)
        for (let step = 0; step < 20; step++) {
          for (let uid = 0; uid < 80; uid++) if (next() < 0.1) all.set(uid, made(uid))
          for (const uid of [...all.keys()]) if (next() < 0.05) all.delete(uid)
          list = resorted(list, all, order, down, 100)
          expect(list).toEqual(sorted([...all.values()], order, down, 100))
        }
      }
  })
})

describe('occupancy', () => {
  const pool = new Pool()
  pool.take({ kind: 'list', columns, rows: [1, 2, 3].map((uid) => values(row(uid, { project: uid < 3 ? 'a' : 'b' }))), ended: [],
    queues: [queue('a', { quota: { gpu: 1 }, allocated: { gpu: 2 } }), queue('b', { quota: { gpu: 2 }, allocated: { gpu: 1 } })], nodes: [] }, 0)
  test('the latest start beyond the quota borrows', () => expect([...borrowers(pool)]).toEqual([2]))
  test('states of workloads decide before the use of a GPU does', () => {
    const states: [string | null, number, boolean][] = [
      ['starved', 0, false], ['parked', 0.9, true], ['left', 0, true], ['quiet', 0, true],
      ['parked, working', 0, false], [null, 0, true], [null, 0.5, false], ['unknown', 0, false],
    ]
    for (const [activity, use, idle] of states) expect(isIdle(device(0, { activity, use }))).toBe(idle)
  })
  test('cells tell hold and idleness', () => {
    const cells = cellsOf(pool, node([device(0, { allocated: 1, workloads: ['w2'], use: 0.01 }), device(1, { allocated: 1, workloads: ['w3'], use: 0.9 }), device(2), device(3, { foreign: 'pid 7' })]), borrowers(pool))
    expect(cells.map((cell) => cell.hold)).toEqual(['borrowed', 'quota', 'free', 'foreign'])
    expect(cells.map((cell) => cell.idle)).toEqual([true, false, false, false])
    expect(totals(cells)).toMatchObject({ gpus: 4, allocated: 2, idle: 1, block: 1, free: 1, foreign: 1 })
  })
  test('of an idle GPU, the allocated part counts as idle', () => {
    expect(totals(cellsOf(pool, node([device(0, { allocated: 0.5, use: 0.01 }), device(1, { allocated: 1, use: 0.01 })]), new Set()))).toMatchObject({ allocated: 1.5, idle: 1.5 })
  })
  test('a GPU of an index belongs to the row of its array', () => {
    const cells = cellsOf(pool, node([device(0, { allocated: 1, workloads: ['w2[17]'] }), device(1, { allocated: 1, workloads: ['other[1]'] })]), new Set())
    expect(cells.map((cell) => cell.rows.map((row) => row.name))).toEqual([['w2'], []])
  })
  test('the head of the queue: urgent first, suspended last', () => {
    const waits = new Pool()
    waits.take({ kind: 'list', columns, rows: [row(1, { status: 'pending', why: 'suspended', priority: 100 }), row(2, { status: 'pending' }), row(3, { status: 'pending', priority: 75 })].map(values), ended: [] }, 0)
    expect(queueHead(waits, 2).map((each) => each.uid)).toEqual([3, 2])
  })
  test('a tree whose parents are missing or below themselves ends', () => {
    const lines = tree([queue('p', { parent: 'd' }), queue('d', { kind: 'department' }), queue('lost', { parent: 'nowhere' }), queue('x', { kind: 'department', parent: 'x' })])
    expect(lines.map(({ queue, depth }) => [queue.name, depth])).toEqual([['d', 0], ['p', 1], ['lost', 0]])
  })
})

describe('command', () => {
  test('words are quoted so that a shell reads them back', () => {
    for (const word of ['a b', "it's", '$HOME', '', 'ü', '--x=1']) expect(split(quoted(word))).toEqual([word])
  })
  test('quotes, escapes and open quotes', () => {
    expect(split(`python -c "print('a b')" x\\ y ''`)).toEqual(['python', '-c', "print('a b')", 'x y', ''])
    expect(split(`echo 'a`)).toBeNull()
    expect(commandOf('a | b')).toEqual(['bash', '-c', 'a | b'])
  })
  test('form as a command line and as a body', () => {
    const form = { ...EMPTY, project: 'vision', name: 'x', gpus: '2', workers: '3', command: 'python train.py', preemptible: 'no' as const, priority: '75' }
    expect(commandLine(form)).toBe('weir submit -p vision --name x --gpus 2 --workers 3 --priority 75 --no-preemptible -- python train.py')
    expect(submission(form)).toEqual({ project: 'vision', command: ['python', 'train.py'], name: 'x', priority: 75, preemptible: false, gpus: 2, workers: 3 })
    const open = { ...EMPTY, project: 'vision', gpus: '', command: 'python train.py', image: ' docker.io/library/python:3.13 ', priority: 'high', type: 'train' }
    expect(commandLine(open)).toBe('weir submit -p vision --type train --priority high --image docker.io/library/python:3.13 -- python train.py')
    expect(submission(open)).toEqual({ project: 'vision', command: ['python', 'train.py'], image: 'docker.io/library/python:3.13', type: 'train', priority: 'high' })
    expect(yaml({ a: 'x', b: 1, c: ['p', 'q'] })).toBe('a: "x"\nb: 1\nc: ["p", "q"]')
  })
})

describe('life line', () => {
  const event = (id: number, at_s: number, kind: string) => ({ id, at_s, kind, sentence: kind }) as PoolEvent
  test('pending, running, evicted, running, over', () => {
    const spans = lifeline([event(1, 0, 'submitted'), event(2, 10, 'started'), event(3, 30, 'stopping'), event(4, 31, 'stopped'), event(5, 40, 'started')], { submitted_s: 0, ended_s: 50, status: 'succeeded', started_s: 40, restarts: 1 }, 99)
    expect(spans.map((each) => [each.phase, each.from_s, each.until_s])).toEqual([['pending', 0, 10], ['running', 10, 30], ['stopping', 30, 31], ['pending', 31, 40], ['running', 40, 50]])
    expect(spent(spans)).toEqual({ pending: 19, running: 30, stopping: 1, suspended: 0 })
  })
  test('suspended while it runs, and resumed', () => {
    const spans = lifeline([event(2, 10, 'started'), event(3, 20, 'suspended'), event(4, 22, 'stopped'), event(5, 30, 'resumed')], { submitted_s: 0, ended_s: null, status: 'pending', started_s: null, restarts: 1 }, 40)
    expect(spans.map((each) => each.phase)).toEqual(['pending', 'running', 'stopping', 'suspended', 'pending'])
  })
})

describe('numbers and addresses', () => {
  test('spans, sizes and times', () => {
    expect([0.4, 59, 124, 7560, 90000].map(brief)).toEqual(['0s', '59s', '2.1m', '2.1h', '1d'])
    expect([5, 65, 3600, 7500, 90000, 864000].map(span)).toEqual(['5s', '1m5s', '1h', '2h5m', '1d1h', '10d'])
    expect([0, 1023, 1 << 30, 1.5 * 2 ** 40].map(bytes)).toEqual(['0 B', '1023 B', '1 GiB', '1.5 TiB'])
    expect(ago(0, 3)).toBe('now')
    expect(amount('gpu', 1)).toBe('1 GPU')
  })
  test('a reason is shown as a sentence, and a name keeps its letters', () => {
    expect(sentence('insufficient capacity: vm has 0 GPUs free')).toBe('Insufficient capacity: vm has 0 GPUs free.')
    expect(sentence('big was stopped by mia.', 'big')).toBe('big was stopped by mia.')
    expect(sentence('vm has 0 GPUs free, and a pod asks for 1')).toBe('vm has 0 GPUs free, and a pod asks for 1.')
    expect(sentence('')).toBe('')
  })
  test('a colour depends on the name alone', () => {
    expect(colourOf('vision')).toBe(colourOf('vision'))
    expect(shortOf('team-red')).toBe('TR')
    expect(shortOf('vision')).toBe('VIS')
  })
  test('addresses are read back', () => {
    const text = href('workload', 'a/b c', { q: 'x:y z', empty: '' })
    expect(parseRoute(text)).toEqual({ screen: 'workload', name: 'a/b c', query: { q: 'x:y z' } })
    expect(parseRoute('')).toEqual({ screen: 'now', name: '', query: {} })
    expect(parseRoute('#/workload/%E0%A4%A').name).toBe('')
    expect(codeOf('#code=abc')).toBe('abc')
  })
  test('CSV: quotes, and no formulas', () => expect(csv([['a', 'x,"y"', '=1+1', -3]])).toBe('a,"x,""y""",\'=1+1,-3\r\n'))
})

describe('acts', () => {
  test('who may, and when', async () => {
    const mia = { user: 'mia', is_admin: false, projects: ['vision'] }
    expect([maySubmitTo(mia, 'vision'), maySubmitTo(mia, 'nlp')]).toEqual([true, false])
    const sweep = (user: string) => ({ name: 'digits', project: 'vision', user })
    const [member, lead] = (['member', 'lead'] as const).map((role) => ({ ...mia, roles: { vision: role } }))
    expect([mayControl(member!, sweep('mia')), mayControl(member!, sweep('ben')), mayControl(lead!, sweep('ben'))]).toEqual([true, false, true])
    const viewer = { ...mia, cluster: { name: 'c', namespace: null, controls: ['team-b'], chooses: false } }
    expect(['team-a/digits', 'team-b/digits'].map((name) => mayControl(viewer, { ...sweep(''), name }))).toEqual([false, true])
    expect((['stop', 'suspend', 'resume', 'rerun'] as const).map((act) => fits(act, row(1)))).toEqual([true, true, false, false])
    expect((['stop', 'suspend', 'resume', 'rerun'] as const).map((act) => fits(act, row(1, { status: 'pending', why: 'suspended' })))).toEqual([true, false, true, false])
    expect((['stop', 'suspend', 'resume', 'rerun'] as const).map((act) => fits(act, row(1, { status: 'failed' })))).toEqual([false, false, false, true])
    await expect(carryOut('stop', [])).resolves.toMatchObject({ good: true })
  })
})

test('drains and windows: times of the browser, GPUs as numbers', () => {
  expect(drainBody({ reason: 'r', at: '', running: 'evict' })).toEqual({ reason: 'r', running: 'evict' })
  expect(drainBody({ reason: '', at: '2030-01-02T03:04', running: 'finish' })).toEqual({ reason: '', running: 'finish', at_s: new Date(2030, 0, 2, 3, 4).getTime() / 1000, later_only: true })
  const form = { ...NO_WINDOW, from: '2030-01-02T03:04', until: '2030-01-02T04:04' }
  expect(windowBody(form)).toEqual({ from_s: seconds(form.from), until_s: seconds(form.from) + 3600, reason: '', running: 'evict', later_only: true })
  expect(windowBody(form, true)).not.toHaveProperty('later_only')
  expect(windowBody({ ...form, running: 'finish' })).not.toHaveProperty('later_only')
  expect(windowBody({ ...form, gpus: ' 2,3 x' })).toMatchObject({ gpus: [2, 3, 'x'] })
  const outage = { name: 'w', node: 'n1', gpus: [2], from_s: 0, until_s: null, reason: '', user: 'mia', running: 'evict' as const }
  expect([partOf(outage), partOf({ ...outage, gpus: null }), partOf({ ...outage, gpus: [2, 3] })]).toEqual(['GPU 2', 'n1', 'GPUs 2, 3'])
})

test('a time among the numbers of a reason is shown as a time', () => {
  const [word, time] = named('until_s', 1795939860.54)
  expect([word, time.includes('2026'), time.includes(',939,')]).toEqual(['until', true, false])
  expect(named('waited_s', 40)).toEqual(['waited s', '40'])
})

test('pending is one count of the rows: an array counts once, and a department has its projects', () => {
  const pool = new Pool()
  const rows = [row(1, { status: 'pending' }), row(2, { status: 'pending', pods: 500, name: 'sweep' }), row(3, { pods: 500, running: 1 }), row(4, { status: 'pending', project: 'nlp' })]
  const queues = [queue('research', { kind: 'department', pending: 999 }), queue('vision', { parent: 'research', pending: 501 }), queue('nlp', { parent: 'research' })]
  pool.take({ kind: 'list', columns, rows: rows.map(values), ended: [], queues, nodes: [] }, 0)
  expect(pendingBy(pool)).toEqual(new Map([['vision', 2], ['nlp', 1], ['research', 3]]))
  expect(counts(pool.rows.values())['pending']).toBe(3)
})

test('quota form keeps what it does not show', () => {
  const vision = queue('vision', { parent: 'research', quota: { gpu: 2, cpu: 4 }, times: { max_runtime: 60 }, max_priority_of: { mia: 60 } })
  expect(entryOf(vision, { ...fieldsOf(vision), gpus: '3' })).toEqual({ name: 'vision', quota: { cpu: 4, gpu: 3 }, limit: {}, weight: {}, priority: 100, department: 'research', max_priority: null, max_priority_of: { mia: 60 }, times: { max_runtime: 60 } })
  expect(entryOf({ ...vision, person_limits: { gpus: 2 } } as typeof vision, fieldsOf(vision))).toMatchObject({ person_limits: { gpus: 2 } })
  const sum = queue('d', { kind: 'department', follows: true })
  expect(entryOf(sum, fieldsOf(sum))).toMatchObject({ quota: {} })
})

async function all<Each>(found: AsyncIterable<Each>): Promise<Each[]> {
  const each: Each[] = []
  for await (const one of found) each.push(one)
  return each
}

test('lines of pieces', async () => {
  const text = new TextEncoder().encode('ab\ncü\n\nd')
  const body = () => new ReadableStream<Uint8Array>({ start(control) { for (const byte of text) control.enqueue(Uint8Array.of(byte)); control.close() } })
  expect(await all(lines(pieces(body())))).toEqual(['ab', 'cü', ''])
  expect(await all(lines(pieces(body()), true))).toEqual(['ab', 'cü', '', 'd'])
})

test('history: cells of the CSV, mean GPUs of a line, and money', () => {
  const waits = { count: 2, p50_s: 1, p90_s: 3, rounded: false }
  const row = { key: 'a', allocated_gpu_s: 3600, used_gpu_s: null, idle_gpu_s: null, over_quota_gpu_s: 0, waiting_s: 1, workloads: 1, ended: 0, preempted: 2, waits, to_quota: { count: 0, p50_s: null, p90_s: null, rounded: false }, evicted: 1, lost_gpu_s: 9, cost: 2 }
  const point = { at_s: 0, span_s: 60, allocated_gpu_s: 120, used_gpu_s: 30, over_quota_gpu_s: 0, waiting_s: 0 }
  const found = { since_s: 0, until_s: 60, by: 'project', currency: null, note: null, rows: [row], total: row, rules: [], points: [point] }
  const [head, cells] = historyCells(found)
  expect(head!.length).toBe(cells!.length)
  expect(cells).toEqual(['a', 3600, null, null, 1, 9, 2, 2, 1, 3, 0, null, null])
  expect(gpusOf(found.points, (each) => each.allocated_gpu_s)).toEqual([{ at_s: 30, value: 2 }])
  expect([both(waits), both({ ...waits, p90_s: 90, rounded: true }), both(row.to_quota)]).toEqual(['1s / 3s', '≈ 1s / 1.5m', '–'])
  expect([money(null, 'EUR'), money(1234.5, 'EUR')]).toEqual(['–', '1,234.50 EUR'])
})

test('what if: empty changes are left out', () => {
  const none = { nodes: '', project: '', quota: '', policy: '' }
  expect(alternativesOf([none, { ...none, nodes: ' 2x8 ', project: 'a', quota: '3' }, { ...none, project: 'a' }, { ...none, policy: 'fair' }])).toEqual(['add-nodes=2x8,quota.a=3', 'policy=fair'])
})

test('names: their order, their domain, and cut sentences', () => {
  const named = (...all: string[]) => all.map((name) => ({ name }))
  expect(named('n-10', 'n-9', 'a').sort(byName)).toEqual(named('a', 'n-9', 'n-10'))
  expect([named('a.x.org', 'b.x.org'), named('a.x.org', 'b'), named('10.0.0.1', '10.0.0.2'), []].map(domainOf)).toEqual(['.x.org', '', '', ''])
  expect([sentence('no GPU is fr…'), sentence('n1 is full', 'n1')]).toEqual(['No GPU is …', 'n1 is full.'])
})

test('charts: round scales, gaps, and the nearest point', () => {
  expect([0, 0.7, 3, 11, 1e6].map(roundUp)).toEqual([1, 0.8, 3, 15, 1e6])
  const line = [{ at_s: 0, value: 0 }, { at_s: 5, value: null }, { at_s: 10, value: 4 }, { at_s: 20, value: NaN }]
  const scale = scaleOf([line])
  expect(scale).toEqual({ from_s: 0, until_s: 20, low: 0, high: 4 })
  expect(path(line, scale, 100, 50)).toBe('M0.0 50.0M50.0 0.0')
  expect(scaleOf([[]]).high).toBe(1)
  const close = scaleOf([[{ at_s: 0, value: 99 }, { at_s: 1, value: 100 }]])
  expect(close.low).toBeGreaterThan(90)
  expect(nearest(line, 8)).toBe(line[2])
  expect(nearest([], 1)).toBeUndefined()
})

test('idle holdings: the most GPUs first; evictions name whom they served', () => {
  const pool = new Pool()
  pool.take({ kind: 'list', columns, rows: [values(row(1, { gpus: 2 })), values(row(2, { gpus: 0.5 }))], ended: [] }, 0)
  const cells = cellsOf(pool, node([device(0, { allocated: 1, workloads: ['w1'], use: 0 }), device(1, { allocated: 1, workloads: ['w1'], use: 0 }), device(2, { allocated: 0.5, workloads: ['w2'], use: 0.01 }), device(3, { allocated: 1, workloads: ['w2'], use: 0.5 })]), new Set())
  expect(idleHoldings(cells).map((each) => [each.row.uid, each.gpus])).toEqual([[1, 2], [2, 0.5]])
  const event = (id: number, kind: string, numbers: Record<string, unknown>) => ({ id, kind, numbers }) as PoolEvent
  pool.addEvents([event(1, 'stopping', { by: 'x' }), event(2, 'stopping', { rule: 'withdrawn' }), event(3, 'started', { by: 'x' })])
  expect(evictions(pool).map((each) => each.id)).toEqual([1])
})

test('indices of an array that share an idle GPU hold their shares of it', () => {
  const pool = new Pool()
  pool.take({ kind: 'list', columns, rows: [values(row(1, { name: 'parts', gpus: 1 }))], ended: [] }, 0)
  const shared = device(0, { allocated: 1, workloads: ['parts[0]', 'parts[1]'], use: 0 })
  expect(idleHoldings(cellsOf(pool, node([shared]), new Set())).map((each) => [each.row.uid, each.gpus])).toEqual([[1, 1]])
})

test('without nodes, idle work is known by the states of workloads', () => {
  const pool = new Pool()
  const rows = [row(1, { activity: 'parked' }), row(2, { activity: 'working', gpus: 4 }), row(3, { activity: 'left', gpus: 2 }), row(4)]
  pool.take({ kind: 'list', columns, rows: [values(row(4)), values(row(5, { activity: 'unknown' }))], ended: [] }, 0)
  expect(knowsActivity(pool)).toBe(false)
  pool.take({ kind: 'list', columns, rows: rows.map(values), ended: [] }, 0)
  expect(knowsActivity(pool)).toBe(true)
  expect(idleWorkloads(pool).map((each) => [each.row.uid, each.gpus])).toEqual([[3, 2], [1, 1]])
})

test('the memory of a share is enforced, cooperative or none, with the reason', () => {
  const stated = { gpu_access: null, gpu_memory: null, gpu_memory_by: null, gpu_memory_why: null }
  expect(memorySentence(stated)).toBe('')
  expect(memorySentence({ ...stated, gpu_memory: 'enforced', gpu_memory_by: 'the driver' })).toBe('enforced: the driver limits every job on its GPUs to its share.')
  expect(memorySentence({ ...stated, gpu_memory: 'cooperative', gpu_memory_why: 'weir-node watches it' })).toBe('cooperative: weir-node watches it.')
  expect(memorySentence({ ...stated, gpu_memory: 'none' })).toBe('none.')
  expect(memorySentence({ ...stated, gpu_access: 'none', gpu_memory: 'none' })).toBe('')
  for (const access of ['enforced', 'cooperative'] as const) expect(memorySentence({ ...stated, gpu_access: access, gpu_memory: access }), 'whole GPUs').toBe('')
  expect(memorySentence({ ...stated, gpu_access: 'cooperative', gpu_memory: 'cooperative', gpu_memory_why: 'other jobs can open its GPUs' })).toBe('cooperative: other jobs can open its GPUs.')
})
