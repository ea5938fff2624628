// A certified OpenID provider, controlled by lines of JSON: each starts a provider, changes its keys, or stops it.
import { generateKeyPairSync } from 'node:crypto'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { createInterface } from 'node:readline'
import { Provider } from 'oidc-provider'

const PEOPLE = {
  mia: { preferred_username: 'mia', email: 'mia@example.org', email_verified: true, groups: ['vision', 'everyone at work'] },
  ada: { preferred_username: 'ada', groups: ['pool-admins'] },
  root: { preferred_username: 'root', groups: ['vision'] },
  tom: { preferred_username: 'tom', groups: [] },
  noname: { groups: ['vision'] },
}
const running = new Map()

function key(kid, alg) {
  const pair = alg === 'ES256'
    ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
    : generateKeyPairSync('rsa', { modulusLength: 2048 })
  return { ...pair.privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg }
}

function provider(of) {
  const found = new Provider(of.issuer, {
    jwks: { keys: of.keys },
    clients: of.clients,
    claims: { openid: ['sub'], profile: ['preferred_username', 'groups'], email: ['email', 'email_verified'] },
    conformIdTokenClaims: false,
    cookies: { keys: ['a secret of tests'] },
    features: { devInteractions: { enabled: true }, deviceFlow: { enabled: true }, revocation: { enabled: true } },
    pkce: { required: () => true },
    issueRefreshToken: async () => true,
    rotateRefreshToken: true,
    ttl: { IdToken: of.lifetime_s, AccessToken: 300, Grant: 3600, Session: 3600, Interaction: 3600, DeviceCode: 600 },
    findAccount: async (_, id) => (of.left.has(id) ? undefined : {
      accountId: id,
      claims: async () => ({ sub: `subject of ${id}`, ...(PEOPLE[id] ?? {}), ...(of.changed[id] ?? {}) }),
    }),
  })
  return found.callback()
}

async function start(asked) {
  const of = { clients: asked.clients, lifetime_s: asked.lifetime_s ?? 300, requests: {}, left: new Set(), changed: {} }
  of.keys = [key('first', asked.alg ?? 'RS256')]
  const handle = (request, answer) => {
    const path = request.url.split('?')[0]
    of.requests[path] = (of.requests[path] ?? 0) + 1
    if (of.mute) return // connections stay open without an answer
    if (of.replies?.[path] !== undefined) return answer.end(of.replies[path])
    return of.answer(request, answer)
  }
  of.server = asked.tls ? createTlsServer(asked.tls, handle) : createServer(handle)
  await new Promise((done) => of.server.listen(asked.port ?? 0, '127.0.0.1', done))
  of.issuer = `${asked.tls ? 'https://localhost' : 'http://127.0.0.1'}:${of.server.address().port}`
  of.answer = provider(of)
  running.set(of.issuer, of)
  return { issuer: of.issuer }
}

const ACTS = {
  start,
  rotate: (asked, of) => { of.keys = [key(asked.kid, asked.alg ?? 'RS256')]; of.answer = provider(of); return {} },
  // Clients of a running provider, for a pool whose address is known only now.
  clients: (asked, of) => { of.clients = asked.clients; of.answer = provider(of); return {} },
  requests: (_, of) => of.requests,
  mute: (asked, of) => { of.mute = asked.on; if (asked.on) of.server.closeAllConnections(); return {} },
  replies: (asked, of) => { of.replies = asked.replies; return {} },
  leave: (asked, of) => { of.left.add(asked.account); return {} },
  change: (asked, of) => { of.changed[asked.account] = asked.claims; return {} },
}

console.log = console.info = console.warn = () => {}
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line)
  let answer
  try {
    answer = await ACTS[asked.act](asked, running.get(asked.issuer))
  } catch (error) {
    answer = { failed: String(error.stack ?? error) }
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
process.exit(0)
