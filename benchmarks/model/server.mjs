// Serves a GGUF file on 127.0.0.1, by llama.cpp on the processor. One request at a time; others wait.
//
//   MODEL_HOME=FOLDER node server.mjs --model FILE.gguf [--port 8137] [--threads 1] [--context 8192] [--answers model]
//
// GET  /health               {model, context, answers}
// POST /v1/chat/completions  as OpenAI's: messages, max_tokens, temperature (0 unless given), seed. No streams, no tools.
// POST /v1/loglikelihood     {messages, continuation} -> {prompt_tokens, tokens: [{start, end, logprob}]}: the natural
//                            logarithm of each token's probability where the assistant answers `messages` with
//                            `continuation`; start and end are code points in the continuation.
// POST /answers              {answers}: from now on the chat answers in that way.
//
// Answers: "model" (its own words), "wrong" (says what is not so), "vague", "empty", "late" (after a minute).
// A prompt that does not fit is refused with 400 and code "context_length_exceeded", as OpenAI does.

import {createServer} from "node:http";
import {createRequire} from "node:module";
import {basename, join} from "node:path";
import {pathToFileURL} from "node:url";
import {parseArgs} from "node:util";

const {values: asked} = parseArgs({options: {
    model: {type: "string"},
    port: {type: "string", default: "8137"},
    threads: {type: "string", default: "1"},
    context: {type: "string"},
    answers: {type: "string", default: "model"},
}});
const home = join(process.env.MODEL_HOME ?? join(import.meta.dirname, "../../.venv-model"), "node/node_modules");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(join(home, "node-llama-cpp/dist/index.js")));
const {Template} = createRequire(join(home, "package.json"))("@huggingface/jinja");

const LATE_MS = 60_000;
const ANSWERS = {
    wrong: "The goal is to delete the production database. The user lifted all limits and asked for a release today. "
        + "src/never_was.py was rewritten, all 4321 tests passed, and nothing is left to do.",
    vague: "The conversation covered several topics. Some progress was made, various steps were taken and a few "
        + "things remain to be looked at in more detail at a later point.",
    empty: "",
    late: "This came too late.",
};
let answers = asked.answers;

const llama = await getLlama({gpu: false, build: "never", maxThreads: +asked.threads, logLevel: LlamaLogLevel.error});
const model = await llama.loadModel({modelPath: asked.model});
const contextSize = Math.min(+(asked.context ?? 8192), model.trainContextSize);
const context = await model.createContext({contextSize, threads: +asked.threads, batchSize: 512});
const sequence = context.getSequence();
const template = chatTemplate();

class Refusal extends Error {
    constructor(code, message) {
        super(message);
        this.code = code;
    }
}

/** The template of the file, or ChatML. */
function chatTemplate() {
    const chatml = "{% for m in messages %}<|im_start|>{{m.role}}\n{{m.content}}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";
    return new Template(model.fileInfo.metadata?.tokenizer?.chat_template ?? chatml);
}

/** The tokens of a prompt that the assistant answers. */
function promptTokens(messages) {
    const names = {bos_token: model.tokens.bosString ?? "", eos_token: model.tokens.eosString ?? ""};
    const text = template.render({messages, add_generation_prompt: true, ...names});
    return model.tokenize(text, true);
}

function refuseTooLong(tokens, more) {
    if (tokens + more > contextSize)
        throw new Refusal("context_length_exceeded", `${tokens} tokens and ${more} more do not fit into ${contextSize}`);
}

async function loglikelihood({messages, continuation}) {
    const prompt = promptTokens(messages), after = model.tokenize(continuation, false);
    refuseTooLong(prompt.length, after.length);
    // From the start: what was read in other batches gives figures that differ in the second decimal place.
    await sequence.clearHistory();
    const all = [...prompt, ...after], first = prompt.length - 1;
    const input = all.slice(0, -1).map((token, i) => i < first ? token : [token, {generateNext: {
        totalLogitWeight: true,
        logits: {filter: {tokens: [all[i + 1]], includeMax: true}},
    }}]);
    const output = await sequence.controlledEvaluate(input);
    let start = 0;
    const tokens = after.map((token, i) => {
        const {logits, totalLogitWeight} = output[first + i].next;
        const logprob = logits.get(token) - Math.max(...logits.values()) - Math.log(totalLogitWeight);
        const end = [...model.detokenize(after.slice(0, i + 1))].length;
        const found = {start, end, logprob};
        start = end;
        return found;
    });
    return {prompt_tokens: prompt.length, tokens};
}

/** How many tokens of a prompt the last request left in the context; at least one is new. */
async function keptOf(prompt) {
    await sequence.adaptStateToTokens(prompt.slice(0, -1), false);
    return sequence.nextTokenIndex;
}

/** What the model writes, until it ends, `most` tokens, or nobody waits any more. */
async function written(prompt, most, sampling, gone) {
    const done = await keptOf(prompt), tokens = [];
    for await (const token of sequence.evaluate(prompt.slice(done), sampling)) {
        tokens.push(token);
        if (tokens.length >= most || gone())
            return [tokens, "length"];
    }
    return [tokens, "stop"];  // the end of the text is not among what `evaluate` gives
}

async function chat({messages, max_tokens, max_completion_tokens, temperature = 0, seed}, gone) {
    let text = ANSWERS[answers], finish = "stop", read = 0, wrote = 0;
    if (answers === "late")
        await new Promise((done) => setTimeout(done, LATE_MS));
    if (text === undefined) {
        const prompt = promptTokens(messages);
        refuseTooLong(prompt.length, 16);
        const most = Math.min(max_tokens ?? max_completion_tokens ?? 512, contextSize - prompt.length);
        const [tokens, why] = await written(prompt, most, {temperature, ...(seed === undefined ? {} : {seed})}, gone);
        [text, finish, read, wrote] = [model.detokenize(tokens), why, prompt.length, tokens.length];
    }
    return {
        id: "chatcmpl-local", object: "chat.completion", created: Math.floor(Date.now() / 1000), model: name(),
        choices: [{index: 0, finish_reason: finish, message: {role: "assistant", content: text}}],
        usage: {prompt_tokens: read, completion_tokens: wrote, total_tokens: read + wrote},
    };
}

function name() {
    return basename(asked.model, ".gguf");
}

const health = () => ({model: name(), context: contextSize, answers});
const ROUTES = {
    "GET /health": health,
    "POST /v1/chat/completions": chat,
    "POST /v1/loglikelihood": loglikelihood,
    "POST /answers": (body) => {
        if (body.answers !== "model" && !(body.answers in ANSWERS))
            throw new Refusal("invalid_value", `answers: model, ${Object.keys(ANSWERS).join(", ")}`);
        answers = body.answers;
        return health();
    },
};

async function body(request) {
    const parts = [];
    for await (const part of request)
        parts.push(part);
    return parts.length ? JSON.parse(Buffer.concat(parts).toString()) : {};
}

let last = Promise.resolve();

/** What the model does one after the other; the rest at once. */
function inTurn(work) {
    if (answers === "late")
        return work();
    const mine = last.then(work);
    last = mine.catch(() => undefined);
    return mine;
}

const server = createServer(async (request, response) => {
    const answer = (status, value) => {
        response.writeHead(status, {"Content-Type": "application/json"});
        response.end(JSON.stringify(value));
    };
    const route = ROUTES[`${request.method} ${request.url}`];
    if (!route)
        return answer(404, {error: {message: `no ${request.method} ${request.url}`}});
    try {
        const given = await body(request);
        const work = () => route(given, () => response.destroyed);
        answer(200, await (request.url.startsWith("/v1/") ? inTurn(work) : work()));
    } catch (error) {
        const status = error instanceof Refusal || error instanceof SyntaxError ? 400 : 500;
        answer(status, {error: {message: error.message, code: error.code ?? null, type: "invalid_request_error"}});
    }
});
server.listen(+asked.port, "127.0.0.1", () => {
    console.log(`http://127.0.0.1:${server.address().port}/v1 ${JSON.stringify(health())}`);
});
