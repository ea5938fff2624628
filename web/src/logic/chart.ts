/** Lines of a chart as SVG paths, on a scale that people read. */
export interface ChartPoint {
  at_s: number
  /** Null where nothing is known: the line is interrupted. */
  value: number | null
}

export interface Scale {
  from_s: number
  until_s: number
  low: number
  high: number
}

/** The smallest round number at or above a value: one digit, 1.5 or 2.5 times a power of ten. */
export function roundUp(value: number): number {
  if (!(value > 0)) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value * 0.999999)!
}

/** The scale of a chart of these lines; from zero if it has to, or unless the values are close together and far from it. */
export function scaleOf(lines: readonly (readonly ChartPoint[])[], least = 0, fromZero = false): Scale {
  let [from_s, until_s, low, high] = [Infinity, -Infinity, Infinity, -Infinity]
  for (const line of lines)
    for (const { at_s, value } of line) {
      from_s = Math.min(from_s, at_s)
      until_s = Math.max(until_s, at_s)
      if (value === null || !Number.isFinite(value)) continue
      low = Math.min(low, value)
      high = Math.max(high, value)
    }
  if (!Number.isFinite(low)) [low, high] = [0, 1]
  high = Math.max(high, least)
  if (low >= 0 && (fromZero || low < high * 0.7)) return { from_s, until_s, low: 0, high: roundUp(high) }
  const margin = (high - low || Math.abs(high) || 1) * 0.1
  return { from_s, until_s, low: low - margin, high: high + margin }
}

/** A path through points, in a box of this size. */
export function path(line: readonly ChartPoint[], scale: Scale, width: number, height: number): string {
  const x = (at_s: number) => ((at_s - scale.from_s) / Math.max(scale.until_s - scale.from_s, 1e-9)) * width
  const y = (value: number) => height - ((value - scale.low) / (scale.high - scale.low)) * height
  let text = ''
  let down = false
  for (const { at_s, value } of line) {
    if (value === null || !Number.isFinite(value)) down = false
    else {
      text += `${down ? 'L' : 'M'}${x(at_s).toFixed(1)} ${y(value).toFixed(1)}`
      down = true
    }
  }
  return text
}

/** The point that is nearest in time. */
export function nearest(line: readonly ChartPoint[], at_s: number): ChartPoint | undefined {
  let [low, high] = [0, line.length - 1]
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (line[middle]!.at_s <= at_s) low = middle
    else high = middle
  }
  const [a, b] = [line[low], line[high]]
  return a && b && Math.abs(b.at_s - at_s) < Math.abs(a.at_s - at_s) ? b : a
}
