/** Requests to the pool: the session's proof goes with each. */
import type { Person } from './types'

const PROOF = 'weir.proof'

export class Problem extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly fields: { field: string; message: string }[] = [],
  ) {
    super(message)
  }
}

export const proof = (): string => localStorage.getItem(PROOF) ?? ''
export const forget = (): void => localStorage.removeItem(PROOF)

export async function request(method: string, path: string, body?: unknown, signal?: AbortSignal, more: Record<string, string> = {}): Promise<Response> {
  const headers: Record<string, string> = { ...more, 'X-Weir-Proof': proof() }
  if (body !== undefined) headers['Content-Type'] = 'application/json'
  let answer: Response
  try {
    answer = await fetch(`/api/v1${path}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: 'same-origin',
      cache: 'no-store',
      signal,
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new Problem(0, 'The server does not answer. The page tries again by itself.')
  }
  if (answer.ok) return answer
  const said = await answer.json().catch(() => ({}))
  throw new Problem(answer.status, said.detail ?? `The server answered ${answer.status}.`, said.errors ?? [])
}

export async function get<Answer>(path: string, signal?: AbortSignal): Promise<Answer> {
  return (await request('GET', path, undefined, signal)).json()
}

export async function send<Answer>(method: string, path: string, body: unknown = {}): Promise<Answer> {
  const answer = await request(method, path, body)
  return answer.status === 204 ? (undefined as Answer) : answer.json()
}

/** Return how people sign in: `dashboard` is where OpenID Connect begins; a cluster takes links only. */
export const signInWays = (): Promise<{ dashboard: string; links_only: boolean }> => get('/sign-in')

export async function signIn(by: { token: string } | { code: string }): Promise<Person> {
  const person = await send<Person>('POST', '/dashboard/sign-in', by)
  localStorage.setItem(PROOF, person.proof ?? '')
  return person
}

/** The person who is signed in; null without a sign-in. */
export async function whoAmI(): Promise<Person | null> {
  if (!proof()) return null
  try {
    return await get<Person>('/dashboard/session')
  } catch (problem) {
    if (problem instanceof Problem && (problem.status === 401 || problem.status === 403)) return null
    throw problem
  }
}

const NAMESPACE = 'weir.namespace'

/** Show one namespace of a cluster, or all with null; the browser remembers it for the next sign-in. */
export async function chooseNamespace(namespace: string | null): Promise<Person> {
  const person = await send<Person>('PUT', '/dashboard/namespace', { namespace })
  if (namespace) localStorage.setItem(NAMESPACE, namespace)
  else localStorage.removeItem(NAMESPACE)
  return person
}

/** The person of a session; one who may not see all namespaces gets the namespace that they chose last. */
export async function placed(person: Person | null): Promise<Person | null> {
  const last = localStorage.getItem(NAMESPACE)
  if (person?.cluster?.namespace !== '' || !last) return person
  return chooseNamespace(last).catch(() => person)
}

/** End the session; return the page that ends the one with the identity provider, if there is one. */
export async function signOut(): Promise<string> {
  const answer = await send<{ provider: string | null }>('DELETE', '/dashboard/session').catch(() => null)
  forget()
  return answer?.provider ?? ''
}

/** Save a text answer as a file. */
export async function download(path: string, name: string): Promise<void> {
  save(await (await request('GET', path)).blob(), name)
}

export function save(content: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}
