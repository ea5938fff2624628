import { afterEach, expect, test, vi } from 'vitest'
import { Problem } from '../src/logic/api'
import { fieldsOf, rebased, save, type QueueDetail } from '../src/logic/quotas'

const vision = (version: string, more: Partial<QueueDetail> = {}): QueueDetail => ({
  name: 'vision', kind: 'project', parent: null, quota: { gpu: 2 }, follows: false, limit: {}, weight: {}, priority: 100,
  max_priority: null, max_priority_of: {}, times: {}, allocated: { gpu: 0 }, share: {}, running: 0, pending: 0, warnings: [], version, ...more,
})

/** Answer requests in turn; return what they asked for. */
function serve(...answers: [number, unknown][]): string[] {
  const asked: string[] = []
  vi.stubGlobal('localStorage', { getItem: () => '' })
  vi.stubGlobal('fetch', (path: string, init: RequestInit) => {
    asked.push(`${init.method} ${path.replace('/api/v1', '')}`)
    const [status, answer] = answers.shift()!
    return Promise.resolve(new Response(JSON.stringify(answer), { status }))
  })
  return asked
}
const CHANGED: [number, unknown] = [409, { detail: 'The project vision was changed meanwhile.' }]

afterEach(() => vi.unstubAllGlobals())

test('what was typed stays over newer settings, and what both changed is named', () => {
  const [before, newer] = [fieldsOf(vision('a')), fieldsOf(vision('b', { quota: { gpu: 5 }, priority: 70, times: { idle_limit: 60 } }))]
  const typed = { ...before, gpus: '3', limit: '8' }
  const found = rebased(typed, before, newer)
  expect(found.fields).toEqual({ ...newer, gpus: '3', limit: '8' })
  expect(found.clashes).toEqual([{ word: 'GPU quota', was: '2', now: '5' }])
  expect(rebased({ ...before, gpus: '5' }, before, newer).clashes).toEqual([])
})

test('a quota is saved with the version that was loaded', async () => {
  const asked = serve([200, vision('b')])
  expect(await save(vision('a'), fieldsOf(vision('a')))).toMatchObject({ saved: { version: 'b' } })
  expect(asked).toEqual(['PUT /projects/vision?version=a'])
})

test('settings that another person has changed are returned, and nothing is saved', async () => {
  const newer = vision('b', { max_priority_of: { mia: 60 } })
  const asked = serve(CHANGED, [200, newer])
  expect(await save(vision('a'), fieldsOf(vision('a')))).toEqual({ newer })
  expect(asked).toEqual(['PUT /projects/vision?version=a', 'GET /projects/vision'])
})

test('a sum of others that has changed is no change by another person', async () => {
  const sum = (version: string, gpu: number) => vision(version, { kind: 'department', follows: true, quota: { gpu } })
  const asked = serve(CHANGED, [200, sum('b', 4)], [200, sum('c', 4)])
  expect(await save(sum('a', 2), fieldsOf(sum('a', 2)))).toMatchObject({ saved: { version: 'c' } })
  expect(asked.at(-1)).toBe('PUT /departments/vision?version=b')
})

test('a project that was deleted meanwhile is reported', async () => {
  serve([409, { detail: 'The project vision was deleted meanwhile.' }], [404, {}])
  await expect(save(vision('a'), fieldsOf(vision('a')))).rejects.toEqual(new Problem(409, 'The project vision was deleted meanwhile.'))
})
