/** Output of a workload as it comes, over restarts of the server. */
import { Problem, request } from './api'
import { lines, pieces } from './lines'
import type { Status } from './types'

/**
 * Number of the start whose output a workload has; 0 if it isn't known. A pending one has that of the start before its last restart. A stopped one may
 * have been pending.
 */
export const startOf = (row: { status: Status; restarts: number }): number => (row.status === 'stopped' ? 0 : row.restarts + Number(row.status !== 'pending'))

/** A later start, whose output follows. */
export interface StartMark {
  words: string
  /** Null if it isn't known. */
  at_s: number | null
}

/** The starts that an event names, with their times. */
function marksOf(fields: Record<string, string>): StartMark[] {
  const times = (fields.begun ?? '').split('; ')
  return (fields.begins ?? '').split('; ').flatMap((words, at) => (words ? [{ words, at_s: Number(times[at]) || null }] : []))
}

const RETRY_MS = [250, 500, 1000]

/** Whether a status is for good: a server that starts, a full one and a proxy without one answer otherwise. */
const isRefusal = (status: number): boolean => status >= 400 && status < 500 && status !== 429

/**
 * Yield the output at a path until it is over, and the marks of later starts. The server of a pool sends events with positions, and a broken response
 * is resumed behind the last one. That of a cluster sends none: `restart` hears that the output begins again.
 * `away` hears why there is none now, and an empty text when there is again.
 */
export async function* followed(path: string, signal: AbortSignal, away: (why: string) => void, restart: () => void): AsyncGenerator<Uint8Array | StartMark> {
  let position = ''
  let begun = false
  for (let tries = 0; ; tries++) {
    try {
      const headers = { Accept: 'text/event-stream', ...(position && { 'Last-Event-ID': position }) }
      const answer = await request('GET', path, undefined, signal, headers)
      if (begun && !position) restart()
      begun = true
      let fields: Record<string, string> = {}
      for await (const line of lines(pieces(answer.body!))) {
        const colon = line.indexOf(':')
        if (line) fields[line.slice(0, colon)] = line.slice(colon + 1).trimStart()
        if (line) continue
        if (fields.event === 'end') return
        away('')
        tries = 0
        if (fields.id !== undefined) position = fields.id
        yield* marksOf(fields)
        if (fields.data) yield Uint8Array.from(atob(fields.data), (each) => each.charCodeAt(0))
        fields = {}
      }
    } catch (problem) {
      if (signal.aborted || (problem instanceof Problem && problem.status && (!begun || isRefusal(problem.status)))) throw problem
    }
    away('The server does not answer. The output goes on when it does.')
    await new Promise((done) => setTimeout(done, RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]))
    signal.throwIfAborted()
  }
}
