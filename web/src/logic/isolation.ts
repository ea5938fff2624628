/** How a workload's share of GPU memory is kept for it, in words. */
import type { Detail } from './types'

type Stated = Pick<Detail, 'gpu_access' | 'gpu_memory' | 'gpu_memory_by' | 'gpu_memory_why'>

/** Return who keeps other jobs off its share of the memory; nothing without a share, and where GPUs are virtual. */
export function memorySentence(detail: Stated): string {
  if (!detail.gpu_memory || detail.gpu_access === 'none') return ''
  if (detail.gpu_memory_by) return `${detail.gpu_memory}: ${detail.gpu_memory_by} limits every job on its GPUs to its share.`
  if (detail.gpu_memory === detail.gpu_access && !detail.gpu_memory_why) return ''
  return `${detail.gpu_memory}${detail.gpu_memory_why ? `: ${detail.gpu_memory_why}` : ''}.`
}
