import { defineConfig } from "vite";

// Everything the page needs is in the files of this build: it must work without a network, behind a tunnel, and under a
// policy that allows nothing inline.
export default defineConfig({
  base: "/",
  build: { target: "es2022", modulePreload: { polyfill: false }, assetsInlineLimit: 0, cssCodeSplit: false },
});
