// The Kotlin classes on a JVM: the ids of the tree's own program, and what is refused. Arguments: a model, a copy of it
// behind 4096 bytes of something else, and the ids that are expected.
package mote.test

import java.io.FileDescriptor
import java.io.FileInputStream
import kotlin.concurrent.thread
import mote.Engine
import mote.Model
import mote.MoteException
import mote.Session

val prompt = intArrayOf(1, 17, 42, 5, 99, 7, 23, 64, 11, 3)

inline fun <reified T : Throwable> failure(what: String, call: () -> Any?): T {
    val thrown = runCatching { call() }.exceptionOrNull()
    check(thrown is T) { "$what: $thrown" }
    return thrown
}

fun expect(condition: Boolean, sentence: () -> String) = check(condition, sentence)

fun ids(session: Session): List<Int> {
    session.feed(prompt)
    return List(8) { session.next() }
}

fun texts(model: Model) {
    // Outside the basic plane, a zero in the middle, long enough for a second look, nothing.
    for (text in listOf("plain", "é 日本 😀 z", "a\u0000b", "many words 😀 ".repeat(300), "")) {
        val tokens = model.tokenize(text)
        val back = model.detokenize(tokens).decodeToString()
        expect(back == text) { "'$text' came back as '$back'" }
    }
    expect(model.tokenize("many words ".repeat(300)).size > 256) { "the long text has few tokens" }
}

/** A conversation in the format of a real model, where there is one. */
fun chat(engine: Engine, path: String) = Model(engine, path).use { model ->
    val text = model.detokenize(model.chatTokens("system" to "Be brief.", "user" to "Hi <|im_end|> 😀")).decodeToString()
    val wanted = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <|im_end|> 😀<|im_end|>\n<|im_start|>assistant\n"
    expect(text == wanted) { "the conversation became '$text'" }
    val many = List(600) { "user" to "again" }.toTypedArray()
    expect(model.chatTokens(*many).size > 600 * 4) { "many messages were cut" }
    val tokens = model.tokenize("<|im_end|>")
    expect(tokens.size > 1 && model.tokenize("<|im_end|>", parseSpecial = true).size == 1) { "control tokens are not kept apart" }
}

fun refusals(engine: Engine, model: Model, path: String) {
    val missing = failure<MoteException>("a missing file") { Model(engine, "$path.missing") }
    expect(missing.status == MoteException.IO && missing.message!!.contains(".missing")) { "$missing" }
    failure<IllegalArgumentException>("a path with a zero") { Model(engine, "a\u0000b") }
    val negative = failure<MoteException>("a negative offset") { Model(engine, 0, -1, 0) }
    expect(negative.status == MoteException.INVALID_ARGUMENT) { "$negative" }
    val unknown = failure<MoteException>("an unknown backend") { Engine(1, "abacus") }
    expect(unknown.message!!.contains("abacus")) { "$unknown" }
    val unmatched = failure<MoteException>("an unknown template") { model.chatTokens("user" to "Hi") }
    expect(unmatched.status == MoteException.UNSUPPORTED) { "$unmatched" }
    Session(model, context = 16).use { session ->
        expect(failure<MoteException>("an open session") { model.close() }.status == MoteException.WRONG_STATE) { "" }
        val full = failure<MoteException>("too many tokens") { session.feed(IntArray(17) { 1 }) }
        expect(full.status == MoteException.CONTEXT_FULL) { "$full" }
        expect(failure<MoteException>("a bad id") { session.feed(intArrayOf(-1)) }.status == MoteException.INVALID_ARGUMENT) { "" }
        session.close()
        failure<IllegalStateException>("a closed session") { session.next() }
        session.cancel() // of a closed one: nothing
    }
}

fun cancelling(model: Model) {
    Session(model, context = 4096).use { session ->
        session.cancel()
        val cancelled = failure<MoteException>("a cancelled call") { session.feed(prompt) }
        expect(cancelled.status == MoteException.CANCELLED) { "$cancelled" }
        // Cancelled and closed from another thread while it runs.
        var seen: Throwable? = null
        val worker = thread { seen = runCatching { while (true) { session.prompt(IntArray(4000) { i -> i % 100 }); session.rewind(1) } }.exceptionOrNull() }
        Thread.sleep(20)
        session.cancel()
        worker.join()
        expect(seen is MoteException) { "the other thread saw $seen" }
    }
}

/** The number of the descriptor, which Android's ParcelFileDescriptor gives and the JVM hides. */
fun number(descriptor: FileDescriptor): Int =
    FileDescriptor::class.java.getDeclaredField("fd").apply { isAccessible = true }.getInt(descriptor)

fun main(arguments: Array<String>) {
    val (path, asset) = arguments
    val expected = arguments.drop(2).map { it.toInt() }
    Engine(threads = 2, backends = "cpu").use { engine ->
        val quote = engine.quote(path, context = 64)
        expect(quote.modelBytes > 0 && quote.modelBytes % 64 == 0L && quote.sessionBytes > 0) { "$quote" }
        Model(engine, path).use { model ->
            Session(model).use { session ->
                expect(ids(session) == expected) { "the ids are others" }
                session.rewind(0)
                expect(ids(session) == expected) { "the ids after a rewind are others" }
                expect(session.prompt(prompt) == prompt.size - 1) { "the beginning was not reused" }
                val logits = session.logits()
                expect(logits.indices.maxBy { logits[it] } == expected[0]) { "the logits are others" }
            }
            Session(model, context = 32, seed = 5, temperature = 0.8f).use { session ->
                session.feed(prompt)
                expect(session.answer().joinToString("").isNotEmpty()) { "no text came" }
            }
            texts(model)
            refusals(engine, model, path)
            cancelling(model)
        }
        System.getenv("MOTE_SMOLLM2")?.let { chat(engine, it) }
        FileInputStream(asset).use { file ->
            Model(engine, number(file.fd), 4096, 0).use { model ->
                file.close()
                Session(model).use { expect(ids(it) == expected) { "the ids of the asset are others" } }
            }
        }
    }
    println("${Engine.version} ${expected.joinToString(" ")}")
}
