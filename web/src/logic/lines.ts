/** Pieces of a response as they come. */
export async function* pieces(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = body.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    }
  } finally {
    reader.releaseLock()
  }
}

/** Whole lines of bytes that come in pieces; with `rest` also what follows the last one. A mark between pieces ends a line. */
export function lines(bytes: AsyncIterable<Uint8Array>, rest?: boolean): AsyncGenerator<string>
export function lines<Mark>(bytes: AsyncIterable<Uint8Array | Mark>, rest?: boolean): AsyncGenerator<string | Mark>
export async function* lines(bytes: AsyncIterable<unknown>, rest = false): AsyncGenerator<unknown> {
  let decoder = new TextDecoder()
  let line: string[] = []
  for await (const piece of bytes) {
    if (!isBytes(piece)) {
      const last = line.join('') + decoder.decode()
      if (last) yield last
      decoder = new TextDecoder()
      line = []
      yield piece
      continue
    }
    const parts = decoder.decode(piece, { stream: true }).split('\n')
    line.push(parts[0]!)
    for (let at = 1; at < parts.length; at++) {
      yield line.join('')
      line = [parts[at]!]
    }
  }
  const last = line.join('') + decoder.decode()
  if (rest && last) yield last
}

const isBytes = (piece: unknown): piece is Uint8Array => piece instanceof Uint8Array
