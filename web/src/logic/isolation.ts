/** How the memory of a workload's GPUs is kept for it, in words. */
import type { Detail } from './types'

type Stated = Pick<Detail, 'gpu_access' | 'gpu_memory' | 'gpu_memory_by' | 'gpu_memory_why'>

/** Return who keeps other jobs off its memory; nothing without GPUs, and where they are virtual. */
export function memorySentence(detail: Stated): string {
  if (!detail.gpu_memory || detail.gpu_access === 'none') return ''
  if (detail.gpu_memory === 'enforced') {
    return detail.gpu_memory_by ? `enforced: ${detail.gpu_memory_by} limits every job on its GPUs to its share.` : 'enforced: no other job shares its GPUs.'
  }
  return `${detail.gpu_memory}${detail.gpu_memory_why ? `: ${detail.gpu_memory_why}` : ''}.`
}
