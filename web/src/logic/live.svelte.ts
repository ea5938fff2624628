/** The live pool of this browser: one tab holds the connection, the others listen to it. */
import { get, Problem, request } from './api'
import { lines, pieces } from './lines'
import { Pool, type Frame } from './pool'
import type { Page, PoolEvent } from './types'

const RETRY_MS = [250, 500, 1000]
/** Time until the next try after a refusal, such as of too many open pages. */
const REFUSED_MS = 5000
const SILENT_MS = 12_000
const MARK_MS = 2_000
const LOCK = 'weir.live'

type State = 'loading' | 'live' | 'lost' | 'signed out'
type Message = { from: string; frame?: string; hello?: true; lost?: true }

export class Live {
  readonly pool = new Pool()
  /** Grows with each frame: what reads the pool reads this first. */
  version = $state(0)
  state = $state<State>('loading')
  /** A list was taken in: before that, nothing is shown as empty. */
  loaded = $state(false)
  /** Why the server refuses the stream; empty if it doesn't answer. */
  refusal = $state('')
  /** Seconds since the epoch by the server's clock; moves once a second. */
  now = $state(Date.now() / 1000)
  /** Rows that changed in the last two seconds. */
  marked = $state.raw<ReadonlySet<number>>(new Set())

  private readonly me = crypto.randomUUID()
  private readonly stopped = new AbortController()
  private readonly channel = new BroadcastChannel('weir.live')
  private leads = false
  /** Another tab was heard: without one, no frame is copied to the channel. */
  private accompanied = false
  private clock = 0

  start(): void {
    this.clock = window.setInterval(() => (this.now = Date.now() / 1000 + this.pool.ahead_s), 1000)
    this.channel.onmessage = (event: MessageEvent<Message>) => this.hear(event.data)
    this.tell({ hello: true })
    navigator.locks.request(LOCK, { signal: this.stopped.signal }, () => this.lead()).catch(() => undefined)
    void this.loadEvents()
  }

  stop(): void {
    this.stopped.abort()
    clearInterval(this.clock)
    this.channel.close()
  }

  /** Load the newest events; later ones come with the stream. */
  private async loadEvents(): Promise<void> {
    try {
      const [events, stops] = await Promise.all(['', '&kind=stopping'].map((kind) => get<Page<PoolEvent>>(`/events?limit=200${kind}`)))
      this.pool.addEvents(events!.items)
      this.pool.stops = stops!.items
      this.version++
    } catch {
      // the stream says what is wrong
    }
  }

  /** Hold the connection for all tabs, until this one closes. */
  private async lead(): Promise<void> {
    this.leads = true
    for (let tries = 0; !this.stopped.signal.aborted; tries++) {
      try {
        await this.read(() => {
          tries = 0
          this.refusal = ''
        })
        this.refusal = ''
      } catch (problem) {
        this.refusal = problem instanceof Problem && problem.status ? problem.message : ''
        if (problem instanceof Problem && problem.status === 401) {
          this.state = 'signed out'
          return
        }
      }
      if (this.stopped.signal.aborted) return
      this.lost()
      this.tell({ lost: true })
      await new Promise((done) => setTimeout(done, this.refusal ? REFUSED_MS : RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]))
    }
  }

  private async read(opened: () => void): Promise<void> {
    const silent = new AbortController()
    const end = () => silent.abort()
    this.stopped.signal.addEventListener('abort', end)
    let timer = window.setTimeout(end, SILENT_MS)
    try {
      const answer = await request('GET', '/dashboard/stream', undefined, silent.signal)
      for await (const line of lines(pieces(answer.body!))) {
        clearTimeout(timer)
        timer = window.setTimeout(end, SILENT_MS)
        if (!line) continue
        opened()
        this.take(line)
        if (this.accompanied) this.tell({ frame: line })
      }
    } finally {
      clearTimeout(timer)
      this.stopped.signal.removeEventListener('abort', end)
      silent.abort()
    }
  }

  private hear(message: Message): void {
    if (message.from === this.me) return
    this.accompanied = true
    if (message.hello && this.leads) {
      if (this.state === 'live') this.tell({ frame: JSON.stringify(this.pool.list()) })
      else this.tell({ lost: true })
    }
    if (message.frame && !this.leads) this.take(message.frame)
    if (message.lost && !this.leads) this.lost()
  }

  private tell(message: Omit<Message, 'from'>): void {
    this.channel.postMessage({ from: this.me, ...message })
  }

  private lost(): void {
    if (this.state !== 'signed out') this.state = 'lost'
  }

  private take(line: string): void {
    const frame = JSON.parse(line) as Frame
    if (frame.kind !== 'list' && !this.loaded) return
    const changed = this.pool.take(frame, Date.now() / 1000)
    if (frame.kind === 'list' && this.state === 'lost') void this.loadEvents()
    this.loaded = true
    this.state = 'live'
    this.now = Date.now() / 1000 + this.pool.ahead_s
    this.version++
    if (changed.length) this.mark(changed)
  }

  private mark(uids: number[]): void {
    this.marked = new Set([...this.marked, ...uids])
    setTimeout(() => {
      const rest = new Set(this.marked)
      for (const uid of uids) rest.delete(uid)
      this.marked = rest
    }, MARK_MS)
  }
}
