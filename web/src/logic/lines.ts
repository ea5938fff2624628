/** Lines of a stream of bytes that comes in pieces. */
export async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest: string[] = []
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const parts = decoder.decode(value, { stream: true }).split('\n')
      rest.push(parts[0]!)
      for (let at = 1; at < parts.length; at++) {
        yield rest.join('')
        rest = [parts[at]!]
      }
    }
  } finally {
    reader.releaseLock()
  }
}
