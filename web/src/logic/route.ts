/** Where the page is: a screen, perhaps an object, and its settings, all in the address. */
export interface Route {
  screen: string
  name: string
  query: Record<string, string>
}

export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const [screen = '', ...rest] = path.split('/')
  let name = rest.join('/')
  try {
    name = decodeURIComponent(name)
  } catch {
    name = ''
  }
  return { screen: screen || 'now', name, query: Object.fromEntries(new URLSearchParams(query)) }
}

export function href(screen: string, name = '', query: Record<string, string> = {}): string {
  const kept = Object.entries(query).filter(([, value]) => value !== '')
  const text = new URLSearchParams(kept).toString()
  return `#/${screen}${name === '' ? '' : `/${encodeURIComponent(name)}`}${text ? `?${text}` : ''}`
}

/** The code of a one-time link in an address. */
export function codeOf(hash: string): string | null {
  return hash.startsWith('#code=') ? hash.slice(6) : null
}

const PLACE = 'weir.place'

/** Keep where the page is while the person signs in elsewhere. */
export const keepPlace = (hash: string): void => sessionStorage.setItem(PLACE, hash)

/** Return the kept place, once; the first screen if there is none. */
export function takePlace(): string {
  const kept = sessionStorage.getItem(PLACE) ?? ''
  sessionStorage.removeItem(PLACE)
  return kept.startsWith('#/') ? kept : href('now')
}
