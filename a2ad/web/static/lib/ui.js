/** Everything that pages are made of. The parts are in modules of their own; pages import them from here. */
export { html, useCallback, useEffect, useMemo, useReducer, useRef, useState } from "./html.js";
export { Button, Copy, Icon, LinkButton, State } from "./controls.js";
export { Card, Empty, Facts, Pager, PageHead, Table, Tabs } from "./layout.js";
export { Field, Form, useEdit, useForm } from "./form.js";
export { Dialog, Notice, explain, useAction, useConfirm } from "./feedback.js";
export { Address, LongText, save, Text, Time, useNow } from "./text.js";
export { Tree } from "./tree.js";
export { Markdown } from "./markdown.js";
export { Artifact, Parts, textOf, toolCall } from "./parts.js";
export { href, useRoute } from "./route.js";
