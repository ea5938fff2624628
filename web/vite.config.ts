import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'
import { gzipSync } from 'node:zlib'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'

const out = '../src/weir/dashboard/page'

/** Write each asset compressed beside itself, so that the server never compresses; in a build, not in unit tests. */
const packed = {
  name: 'packed',
  apply: 'build',
  writeBundle() {
    for (const name of readdirSync(`${out}/assets`))
      writeFileSync(`${out}/assets/${name}.gz`, gzipSync(readFileSync(`${out}/assets/${name}`), { level: 9 }))
  },
}

export default defineConfig({
  plugins: [svelte(), packed],
  base: './',
  build: { outDir: out, emptyOutDir: true, target: 'es2022', modulePreload: false, assetsInlineLimit: 0 },
  // A loaded machine takes long for the tests that try thousands of cases.
  test: { include: ['test/**/*.test.ts'], environment: 'node', testTimeout: 60_000, hookTimeout: 60_000 },
} as never)
