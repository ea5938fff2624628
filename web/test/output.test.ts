import { afterEach, expect, test, vi } from 'vitest'
import { Problem } from '../src/logic/api'
import { lines } from '../src/logic/lines'
import { followed, startOf, type StartMark } from '../src/logic/output'

const event = (id: string, text: string, more = '') => `${more}id: ${id}\ndata: ${btoa(String.fromCharCode(...new TextEncoder().encode(text)))}\n\n`
const END = 'event: end\ndata:\n\n'
const unused = () => expect.unreachable('this output goes on')

/** Answer requests in turn: with a text, or with nothing, as a server that is away. Return the positions they asked for. */
function serve(...answers: (string | Response | null)[]): (string | undefined)[] {
  const asked: (string | undefined)[] = []
  vi.stubGlobal('localStorage', { getItem: () => '' })
  vi.stubGlobal('fetch', (_path: string, init: RequestInit) => {
    asked.push((init.headers as Record<string, string>)['Last-Event-ID'])
    const answer = answers.shift()
    if (answer === null || answer === undefined) return Promise.reject(new TypeError('no connection'))
    return Promise.resolve(answer instanceof Response ? answer : new Response(answer))
  })
  return asked
}

afterEach(() => vi.unstubAllGlobals())

test('output goes on behind the last event over a restart of the server', async () => {
  const asked = serve(event('1:5', 'first\nsec') + 'id: 1:9\ndata: bG9z', null, event('1:14', 'ond\nü') + END)
  const said: string[] = []
  const found: unknown[] = []
  for await (const line of lines<StartMark>(followed('/logs', new AbortController().signal, (why) => said.push(why), unused), true)) found.push(line)
  expect(found).toEqual(['first', 'second', 'ü'])
  expect(asked).toEqual([undefined, '1:5', '1:5'])
  expect(said.map((why) => why !== '')).toEqual([false, true, true, false])
})

test('a later start is marked with its time between its lines and those before', async () => {
  serve(event('1:1', 'first, cut off') + event('2:0', '', 'begins: start 2 of a/0; start 3 of a/1\nbegun: 1764400000.500; \n') + event('2:7', 'second\n') + END)
  const found: unknown[] = []
  for await (const line of lines<StartMark>(followed('/logs', new AbortController().signal, () => undefined, unused), true)) found.push(line)
  expect(found).toEqual(['first, cut off', { words: 'start 2 of a/0', at_s: 1764400000.5 }, { words: 'start 3 of a/1', at_s: null }, 'second'])
})

test('a proxy without a server is waited out once there was output', async () => {
  const asked = serve(event('1:3', 'on\n'), new Response('', { status: 502 }), new Response('', { status: 429 }), event('1:6', 'off') + END)
  const found: unknown[] = []
  for await (const line of lines<StartMark>(followed('/logs', new AbortController().signal, () => undefined, unused), true)) found.push(line)
  expect([found, asked]).toEqual([['on', 'off'], [undefined, '1:3', '1:3', '1:3']])
})

test('output without positions begins again after a broken connection', async () => {
  const asked = serve('data: bG9zdAo=\n\n:\n\n', null, 'data: YWxsCg==\n\n' + END)
  let found: unknown[] = []
  const said: string[] = []
  for await (const line of lines<StartMark>(followed('/logs', new AbortController().signal, (why) => said.push(why), () => (found = [])), true)) found.push(line)
  expect([found, asked]).toEqual([['all'], [undefined, undefined, undefined]])
  expect(said.at(-1)).toBe('')
})

test('a refusal ends it, and so does the page', async () => {
  serve(new Response(JSON.stringify({ detail: 'No such workload.' }), { status: 404 }))
  const stopped = new AbortController()
  await expect(followed('/logs', stopped.signal, () => undefined, unused).next()).rejects.toThrow(Problem)
  serve(null)
  await expect(followed('/logs', stopped.signal, () => stopped.abort(), unused).next()).rejects.toThrow('aborted')
})

test('the output of a workload that waits again is that of its last start', () => {
  const starts = (['running', 'failed', 'pending', 'stopped'] as const).map((status) => startOf({ status, restarts: 2 }))
  expect(starts).toEqual([3, 3, 2, 0])
})
