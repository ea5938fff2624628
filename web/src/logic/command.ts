/** Commands of the command line, to be copied into a shell. */
export interface Form {
  project: string
  name: string
  type: string
  gpus: string
  workers: string
  cpu: string
  memory: string
  priority: string
  preemptible: '' | 'yes' | 'no'
  max_runtime: string
  directory: string
  image: string
  command: string
}

export const EMPTY: Form = {
  project: '', name: '', type: '', gpus: '1', workers: '1', cpu: '', memory: '', priority: '',
  preemptible: '', max_runtime: '', directory: '', image: '', command: '',
}

/** A word as a shell reads it back. */
export function quoted(word: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

/** The words of a command, by the rules of a shell; null if a quote isn't closed. */
export function split(text: string): string[] | null {
  const words: string[] = []
  let word: string | null = null
  let quote = ''
  for (let at = 0; at < text.length; at++) {
    const letter = text[at]!
    if (quote) {
      if (letter === quote) quote = ''
      else if (letter === '\\' && quote === '"' && '"\\$`'.includes(text[at + 1] ?? '')) word = (word ?? '') + text[++at]
      else word = (word ?? '') + letter
    } else if (letter === "'" || letter === '"') {
      quote = letter
      word ??= ''
    } else if (letter === '\\' && at + 1 < text.length) word = (word ?? '') + text[++at]
    else if (/\s/.test(letter)) {
      if (word !== null) words.push(word)
      word = null
    } else word = (word ?? '') + letter
  }
  if (quote) return null
  return word === null ? words : [...words, word]
}

const NEEDS_SHELL = /[|&;<>$`\n*?]/

/** The words that a pod runs: those of the text, or a shell with the text. */
export function commandOf(text: string): string[] | null {
  if (NEEDS_SHELL.test(text.trim())) return ['bash', '-c', text.trim()]
  return split(text)
}

const plural: [keyof Form, string][] = [['name', 'name'], ['gpus', 'gpus'], ['workers', 'workers'], ['cpu', 'cpu'], ['memory', 'memory'],
  ['type', 'type'], ['priority', 'priority'], ['max_runtime', 'max-runtime'], ['directory', 'directory'], ['image', 'image']]

/** The command line that submits a form. */
export function commandLine(form: Form): string {
  const words = ['weir', 'submit', '-p', form.project || 'PROJECT']
  for (const [key, option] of plural) {
    const value = form[key].trim()
    if (value && !(key === 'workers' && value === '1')) words.push(`--${option}`, value)
  }
  if (form.preemptible) words.push(form.preemptible === 'yes' ? '--preemptible' : '--no-preemptible')
  return [...words, '--', ...(commandOf(form.command) ?? [form.command])].map(quoted).join(' ')
}

/** The body of a submission. */
export function submission(form: Form): Record<string, unknown> {
  const body: Record<string, unknown> = { project: form.project, command: commandOf(form.command) ?? form.command }
  for (const key of ['name', 'max_runtime', 'directory', 'image', 'cpu', 'memory'] as const) if (form[key].trim()) body[key] = form[key].trim()
  if (form.type) body['type'] = form.type
  const priority = form.priority.trim()
  if (priority) body['priority'] = /^\d+$/.test(priority) ? Number(priority) : priority
  if (form.preemptible) body['preemptible'] = form.preemptible === 'yes'
  if (form.gpus.trim()) body['gpus'] = /^\d+(\.\d+)?$/.test(form.gpus.trim()) ? Number(form.gpus) : form.gpus.trim()
  if (form.workers.trim() && form.workers.trim() !== '1') body['workers'] = Number(form.workers)
  return body
}

/** A submission as YAML, for `weir submit -f`. */
export function yaml(body: Record<string, unknown>): string {
  return Object.entries(body)
    .map(([key, value]) => `${key}: ${Array.isArray(value) ? `[${value.map((word) => JSON.stringify(word)).join(', ')}]` : typeof value === 'string' ? JSON.stringify(value) : String(value)}`)
    .join('\n')
}

/** Return True if a way to a change is a command, and not a sentence. */
export const isCommand = (how: string): boolean => /^(weir|kubectl) /.test(how)
